"""One job: how it stands, its story, its attempts, its spec."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from schedulearn.client import FINISHED, types
from schedulearn.dashboard.views.columns import curve_of, metric_of, progress_of, ran_of
from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import coded, dot, empty, facts, panel, pill, when
from schedulearn.dashboard.views.table import Column, table
from schedulearn.wire import facts as told
from schedulearn.wire.words import duration, instant, nodes_of, why


def title(job: types.Job) -> Safe:
    name = el("h1", dot(job["id"]), el("span", job["id"], class_="id"), el("span", job["name"], class_="name"))
    return join(name, pill(job["state"]), el("span", why(job), class_="note"))


def standing(job: types.Job, explained: types.Explanation | None) -> Safe:
    """How it stands, in a line of large figures and a sentence."""
    progress, finished = job["progress"], job["state"] in FINISHED
    left = progress["eta_seconds"] if progress and not finished else None
    figures: list[tuple[str, Child]] = [
        ("Progress", progress_of(job) if progress else None),
        (
            progress["metric"] if progress else "",
            join(metric_of(job), curve_of(job)) if progress else None,
        ),
        ("Workers", str(job["workers"]) if job["workers"] else None),
        ("Where", nodes_of(job)),
        ("Ran", ran_of(job)),
        ("Left", duration(left) if left is not None else None),
        ("Position", str(explained["position"]) if explained and explained["position"] else None),
    ]
    tiles = [el("div", el("span", name), el("b", value), class_="tile") for name, value in figures if value]
    # That it runs stands above: a sentence more says what is unusual.
    unusual = explained and not finished and (job["state"] != "running" or ". " in explained["text"])
    words = el("p", explained["text"], class_="why") if explained and unusual else None
    return join(el("div", tiles, class_="tiles") if tiles else None, words, _has(explained) if explained else None)


def _has(explained: types.Explanation) -> Safe | None:
    """Why it has what it has."""
    told = [(name, words) for name, words in (("Size", explained["size"]), ("Place", explained["place"])) if words]
    return join(el("p", el("b", name, ": "), coded(words), class_="why") for name, words in told) if told else None


def not_there(moves: Sequence[types.PossibleMove]) -> Safe:
    """The servers to which a job cannot move now, each with the reason."""
    refused = [el("li", one["problem"]) for one in moves if one["problem"]]
    if not moves:
        return el("p", "There is no other server to move the job to.")
    if len(refused) == len(moves):
        return join(el("p", "No other server can take the job now:"), el("ul", refused, class_="reasons"))
    return el("ul", refused, class_="reasons hint") if refused else Safe("")


def about(job: types.Job, now: datetime) -> Safe:
    """The same facts as `describe` tells, without those that stand above."""
    above = {"workers", "ran", "submitted", "started", "finished", "deadline"}
    pairs: list[tuple[str, Child]] = [(name, value) for name, value in told.facts(job, now) if name not in above]
    moments = ("submitted_at", "started_at", "finished_at", "deadline")
    values: Mapping[str, Any] = job
    pairs += [(name.removesuffix("_at"), when(values[name])) for name in moments if values[name]]
    if job["cpus_limit"] is not None:
        pairs.append(("CPU limit", f"{job['cpus_limit']:g} cores for each worker"))
    return panel("About", facts(pairs))


def story(events: Sequence[types.Event]) -> Safe:
    """The newest first."""
    if not events:
        return panel("Events", empty("Nothing has happened yet."), note=0)
    first = events[0]["at"]
    columns = (
        Column("Time", lambda event: when(event["at"]), "key"),
        Column("After", lambda event: f"+{_span(first, event['at'])}", "num w2"),
        Column("What", _what),
        Column("Cause", lambda event: event["cause"], "why"),
    )
    return panel("Events", table(columns, reversed(events), "Events"), note=len(events))


def _span(begin: str, end: str) -> str:
    first, last = instant(begin), instant(end)
    return duration(max(0.0, (last - first).total_seconds()) if first and last else 0.0)


def _what(event: types.Event) -> Child:
    state = pill(event["state"]) if event["state"] else None
    if event["state"] == event["kind"]:
        return state
    return join(el("span", event["kind"].replace("_", " "), class_="kind"), state)


def attempts(found: Sequence[types.Attempt], now: datetime) -> Safe:
    rows = [(attempt, worker) for attempt in reversed(found) for worker in attempt["workers"]]
    if not rows:
        return panel("Attempts", empty("The job has not started yet."))
    columns = (
        _of_worker("Worker", lambda worker: worker["worker"]),
        _of_worker("Where", lambda worker: worker["node"]),
        _of_worker("Devices", lambda worker: ", ".join(worker["devices"]), "w1"),
        _of_worker("Started", lambda worker: when(worker["started_at"]), "num w2"),
        _of_worker("Ran", lambda worker: _ran(worker, now), "num"),
        Column("Ended", _end, "why"),
    )
    return panel("Attempts", table(columns, rows, "Attempts"), note=len(found))


def _of_worker(title: str, cell: Callable[[types.AttemptWorker], Child], kind: str = "") -> Column:
    return Column(title, lambda row: cell(row[1]), kind)


def _ran(worker: types.AttemptWorker, now: datetime) -> str:
    begin, end = instant(worker["started_at"]), instant(worker["ended_at"])
    return duration(max(0.0, round(((end or now) - begin).total_seconds()))) if begin else ""


def _end(row: tuple[types.Attempt, types.AttemptWorker]) -> str:
    words, _ = told.worker_end(*row)
    return words


def spec(job: types.Job) -> Safe:
    return panel("Spec", el("pre", spec_text(job["spec"]), class_="code", tabindex="0", aria_label="Spec"))


def spec_text(given: Mapping[str, Any]) -> str:
    """As its user may write it again, without what was left out."""
    kept = _pruned(given)
    if isinstance(kept.get("command"), list):
        kept["command"] = shlex.join(kept["command"])
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=100)


def _pruned(given: Mapping[str, Any]) -> dict[str, Any]:
    inside = {name: _pruned(value) if isinstance(value, dict) else value for name, value in given.items()}
    return {name: value for name, value in inside.items() if value not in (None, [], {}, "")}


def now_utc() -> datetime:
    return datetime.now(UTC)
