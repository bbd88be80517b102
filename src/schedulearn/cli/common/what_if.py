"""`compare --now`: when the jobs of this moment end, under the policy in force and under others."""

import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table
from schedulearn.cli.common.progress import progress_bars
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.sim_options import sim_options
from schedulearn.cli.view.table import Cell, Column
from schedulearn.wire import predictions
from schedulearn.wire.clean import clean

if TYPE_CHECKING:
    from schedulearn.client import Client
    from schedulearn.wire.types import Prediction, Study

_EVERY = 0.2  # seconds between two looks at how far it is
_STYLES = {1: "green", 0: "", -1: "red"}
_WIDE = 24  # letters that each further policy needs


def refuse_beside_now(given: Mapping[str, Any]) -> None:
    """Options of a replay mean nothing here."""
    usual = {one.name: one.default for one in sim_options} | {"seeds": 1}
    for name, value in given.items():
        if value not in (None, usual.get(name), inspect.Parameter.empty):
            raise Failure(
                "it cannot be combined with --now", field=f"--{name.replace('_', '-')}", allowed="--policies, --json"
            )


def what_if(policies: Sequence[str], *, as_json: bool) -> None:
    with connect() as client:
        policy = client.policy()
        known = list(policy["available"]["presets"])
        wanted = [one for name in policies for one in (known if name == "all" else [name])]
        study = _waited(client, client.what_if(wanted), len({policy["preset"], *wanted}))
    told = study["prediction"]
    if told is None:
        raise Failure(study["problem"] or f"it was {study['state']}", Code.JOB_FAILED)
    if as_json:
        say_json(told)
    else:
        _say(told)
    if study["problem"]:
        raise Failure(study["problem"], Code.JOB_FAILED)


def _waited(client: "Client", study: "Study", total: int) -> "Study":
    name = study["name"]
    try:
        with progress_bars("policies", total) as bar:
            while study["state"] == "running":
                bar("looking ahead", study["progress"]["done"] if study["progress"] else 0)
                time.sleep(_EVERY)
                study = client.study(name)
    except KeyboardInterrupt:
        with suppress(Exception):  # it has limits of its own
            client.cancel_study(name)
        raise
    return study


def _say(told: "Prediction") -> None:
    first, *others = told["policies"]
    heads = [
        Column("job", right=True),
        Column("name", flex=True),
        Column("state"),
        Column(f"{first} (now)", right=True),
    ]
    heads += [Column(name, right=True, need=60 + _WIDE * i) for i, name in enumerate(others)]
    rows: list[list[Cell | str]] = []
    for job in told["jobs"]:
        ends = job["finishes"]
        cells = [
            Cell(predictions.finish_of(job, name), _STYLES[predictions.verdict(ends[name], ends[first])])
            for name in told["policies"]
        ]
        rows.append([str(job["job"]), clean(job["name"]), job["state"], *cells])
    best = predictions.best(told)
    averages = [
        Cell(predictions.finish(told["average"][name]) + ("*" if name == best else ""), "bold")
        for name in told["policies"]
    ]
    say_table(heads, [*rows, ["", Cell("average completion", "bold"), "", *averages]])
    say()
    for words in predictions.notes(told, datetime.now(UTC)):
        note(words, "dim")
    if best and best != first:
        next_steps({"switch to the best": f"schedulearn policy set {best}"})
