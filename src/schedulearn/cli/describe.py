"""`describe`: all that is known of one job."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from schedulearn.cli.common.out import next_steps, of_job, paint, say, say_facts, say_json, say_table
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, verb_app
from schedulearn.cli.view import story
from schedulearn.cli.view.table import Column, rows_of
from schedulearn.wire.clean import clean
from schedulearn.wire.facts import facts
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import STATE_STYLE, Json, why

app = verb_app()
_MOST_CURVES, _MOST_WORKERS = 100, 100  # that are shown


@app.command()
def describe(job: Job, as_json: AsJson = False) -> None:
    """Show everything about a job: its state, events, attempts, resource use, and how it ended.

    \b
    Example:
      schedulearn describe 17
    """
    with connect() as client:
        row = client.job(job)
        about: Json = row
        events: list[Json] = list(client.job_events(job))
        attempts: list[Json] = list(client.attempts(job))
        series: list[Json] = list(client.main_metrics(row, most=_MOST_CURVES))
        used: list[Json] = list(client.usage(job, max_points=60, most=_MOST_WORKERS))
        place: Json | None = client.explain(job) if about["state"] == "queued" else None
    if as_json:
        say_json({**about, "events": events, "attempts": attempts, "metrics": series, "usage": used, "explain": place})
        return
    now = datetime.now(UTC)
    say(paint(of_job(about), "bold") + " " + paint(about["state"], STATE_STYLE.get(about["state"], "")))
    if place or why(about):
        say("  " + clean((place or {}).get("text") or why(about)))
    say()
    say_facts(facts(about, now))
    _say_facts("Progress", story.curves(about, series))
    _say_facts("Usage", story.usage(about, used))
    _say_section("Events", story.event_columns(events, now), events)
    _say_section("Attempts", story.attempt_columns(now), story.workers_of(attempts))
    say()
    next_steps(_steps(about))


def _say_section(title: str, columns: Sequence[Column], things: Sequence[Any]) -> None:
    if things:
        say()
        say(title, "bold")
        say_table(columns, rows_of(columns, things))


def _say_facts(title: str, facts: list[tuple[str, str]]) -> None:
    if facts:
        say()
        say(title, "bold")
        say_facts(facts)


def _steps(job: Json) -> dict[str, str]:
    number = job["id"]
    steps = {"its output": f"schedulearn logs {number}" + ("" if job["state"] in FINISHED else " -f")}
    if job["state"] in FINISHED:
        return {**steps, "fetch its files": f"schedulearn pull {number}", "remove it": f"schedulearn rm {number}"}
    return {
        **steps,
        "update it": f"schedulearn update {number} --priority 80",
        "cancel it": f"schedulearn cancel {number}",
    }
