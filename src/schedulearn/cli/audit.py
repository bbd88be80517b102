"""`audit`: who did what, when, and from where."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import note, say_json, say_table
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.cli.view.table import Cell, Column, rows_of
from schedulearn.wire.words import Json, clock, parameters

app = verb_app()
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_ALLOWED = "a time ago such as 30m, 12h or 7d, or a date such as 2026-03-01 or 2026-03-01T14:00"


@app.command()
def audit(
    user: Annotated[str | None, option("NAME", "Only actions of this user.")] = None,
    action: Annotated[
        str | None, option("ACTION", "Only this action, such as job.cancel; job: all actions on jobs.")
    ] = None,
    of: Annotated[str | None, option("TEXT", "Only actions on this object, such as 'job 17'.", "--object")] = None,
    owner: Annotated[str | None, option("NAME", "Only actions on what belongs to this user.")] = None,
    since: Annotated[str | None, option("TIME", "Only from then on: 12h or 7d (ago), or a date.")] = None,
    until: Annotated[str | None, option("TIME", "Only before then: likewise.")] = None,
    limit: Annotated[int, option("N", "At most this many, newest first.", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """Show who did what to jobs, users, tokens, nodes and the policy, and from where. For administrators.

    \b
    Examples:
      schedulearn audit
      schedulearn audit --user ann --action job --since 7d
      schedulearn audit --object 'job 17' --json
    """
    now = datetime.now(UTC)
    times = {"since": _moment(since, "--since", now), "until": _moment(until, "--until", now)}
    with connect() as client:
        found: list[Json] = list(client.audit(user, action, of, owner, **times, limit=limit))
    if as_json:
        say_json(found)
        return
    columns = (
        Column("TIME", lambda entry: clock(entry["at"], now)),
        Column("USER", lambda entry: Cell(entry["actor"], "bold"), flex=True),
        Column("FROM", lambda entry: entry["origin"], flex=True, need=110),
        Column("ACTION", lambda entry: Cell(entry["action"], "" if _is_done(entry) else "red")),
        Column("OBJECT", lambda entry: entry["object"], flex=True),
        Column("OWNER", lambda entry: entry["owner"], flex=True, need=70),
        Column("DETAILS", _details, flex=True, need=90),
    )
    say_table(columns, rows_of(columns, found))
    if len(found) == limit:
        note(f"Only the newest {limit} are shown; more: --limit.")


def _is_done(entry: Json) -> bool:
    return bool(entry["outcome"] == "done")


def _details(entry: Json) -> str:
    return parameters(entry["data"]) if _is_done(entry) else str(entry["outcome"])


def _moment(text: str | None, field: str, now: datetime) -> str | None:
    """An ISO 8601 time from `12h` (ago) or a date; one without a zone is the reader's."""
    if text is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([smhd])", text.strip()):
        return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise Failure(f"{text!r} is not a time", field=field, allowed=_ALLOWED) from None
