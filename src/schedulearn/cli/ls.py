"""`ls`: list jobs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import next_steps, note, say, say_json, say_table, width
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view.jobs import JOBS, rows
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import STATES, Json

if TYPE_CHECKING:
    from schedulearn.client import Client
    from schedulearn.wire.types import Job

app = verb_app()
SORTS = ("id", "priority", "submitted_at", "finished_at", "name", "user", "state")
UNFINISHED = tuple(state for state in STATES if state not in FINISHED)
GROUPS = {"active": UNFINISHED, "finished": FINISHED}
_RECENT = 10  # finished jobs shown by default
_SHOWN = 100  # rows of a table, if not told otherwise
_PAGE = 500  # jobs asked for at once


@app.command()
def ls(
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="All jobs, not only unfinished and recently finished ones.")
    ] = False,
    state: Annotated[
        list[str] | None,
        option("STATE", f"Only jobs in these states: {', '.join(STATES)}, active, finished.", "--state", "-s"),
    ] = None,
    user: Annotated[str | None, option("NAME", "Only this user's jobs.")] = None,
    name: Annotated[str | None, option("NAME", "Only jobs of exactly this name.")] = None,
    search: Annotated[str | None, option("TEXT", "Only jobs with this in their name.")] = None,
    sort: Annotated[str, option("FIELD", f"One of: {', '.join(SORTS)}.")] = "id",
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Reverse the order.")] = False,
    limit: Annotated[int | None, option("N", "At most this many; a table shows 100 by default.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs: unfinished ones, and the last few that finished.

    \b
    Examples:
      schedulearn ls
      schedulearn ls --state running --state queued --sort priority --reverse
      schedulearn ls --all --search lr0.1
      schedulearn ls --all --user ann --json
    """
    if sort not in SORTS:
        raise Failure(f"cannot sort by {sort!r}", field="--sort", allowed=", ".join(SORTS))
    states = _states(state or [])
    most = limit if limit or as_json else _SHOWN
    filters = {"user": user, "name": name, "search": search}
    asked: dict[str, Any] = {**filters, "sort": sort, "order": "desc" if reverse else "asc"}
    with connect() as client:
        if all_ or states:
            jobs, total = fetch(client, most, state=states, **asked)
        else:
            jobs, total = _current(client, most, asked)
        reasons = {} if as_json else _reasons(client, jobs)
    if as_json:
        say_json(jobs)
        return
    _say(jobs, reasons, total, filtered=bool(all_ or states or any(filters.values())))


def _states(given: list[str]) -> tuple[str, ...]:
    wanted: list[str] = []
    for text in ",".join(given).split(",") if given else ():
        if text not in STATES and text not in GROUPS:
            raise Failure(f"there is no state {text!r}", field="--state", allowed=", ".join([*STATES, *GROUPS]))
        wanted += GROUPS.get(text, (text,))
    return tuple(dict.fromkeys(wanted))


def fetch(client: "Client", most: int | None, **asked: Any) -> tuple[list["Job"], int]:
    """Up to `most` jobs (None: all), page by page; and how many there are."""
    found: list[Job] = []
    while True:
        size = _PAGE if most is None else min(_PAGE, most - len(found))
        page = client.jobs(limit=size, offset=len(found), **asked)
        found += page["jobs"]
        if len(found) >= (page["total"] if most is None else min(most, page["total"])) or not page["jobs"]:
            return found, page["total"]


def _current(client: "Client", most: int | None, asked: dict[str, Any]) -> tuple[list["Job"], int]:
    """Unfinished jobs, and the last finished ones as far as there is room."""
    jobs, total = fetch(client, most, state=UNFINISHED, **asked)
    room = _RECENT if most is None else min(_RECENT, most - len(jobs))
    recent: list[Job] = []
    if room > 0:
        last = {**asked, "sort": "id", "order": "desc"}
        recent = client.jobs(state=FINISHED, limit=room, **last)["jobs"]

    def key(job: Json) -> tuple[bool, Any, int]:
        value = job[asked["sort"]]
        return value is not None, value, job["id"]

    return sorted([*recent, *jobs], key=key, reverse=asked["order"] == "desc"), total + len(recent)


def _reasons(client: "Client", jobs: list["Job"]) -> dict[int, str]:
    """Why waiting jobs wait, as the page has it too: the service keeps it for the head of the queue."""
    waiting = [job for job in jobs if job["state"] == "queued"]
    if not waiting:
        return {}
    seen = client.overview()
    first = seen["waiting"]
    known = {one["job"]["id"]: one["why"]["text"] for one in first}
    behind = f"not among the first {len(first)} of the queue" if seen["counts"].get("queued", 0) > len(first) else ""
    return {job["id"]: known.get(job["id"]) or job["reason"] or behind for job in waiting}


def _say(jobs: list["Job"], reasons: dict[int, str], total: int, filtered: bool) -> None:
    if not jobs:
        say("No jobs match." if filtered else "There are no jobs yet.")
        next_steps(
            {"all jobs": "schedulearn ls --all"} if filtered else {"run one": "schedulearn run -- python train.py"}
        )
        return
    places = {job: {"text": reason} for job, reason in reasons.items()}
    say_table(JOBS, rows(JOBS, jobs, places, width(), datetime.now(UTC)))
    waiting = [job["id"] for job in jobs if job["state"] == "queued"]
    if waiting:
        note(f"why a job is waiting: schedulearn explain {waiting[0]}", "dim")
    if len(jobs) < total:
        note(f"{len(jobs)} of {total} jobs shown; more: --limit {total}")
