"""`migrate`: move a running job to another node."""

from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, of_job, say, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, verb_app
from schedulearn.cli.view.words import FINISHED, Json

if TYPE_CHECKING:
    from schedulearn.client.types import Event

app = verb_app()
_OVER = ("migrated", "not_migrated", "pause")  # events after which nothing more comes of it


@app.command()
def migrate(
    job: Job,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Where it goes on; `schedulearn nodes` lists them.")],
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when it runs there, or when nothing comes of it.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Move a running job to another node, with all its workers. It saves, stops, and goes on over there.

    It has its grace period to save. The new place is kept for it meanwhile. A job that has saved no checkpoint begins
    again from the start.

    \b
    Examples:
      schedulearn migrate 17 gpu2
      schedulearn migrate 17 gpu2 --wait
    """
    with connect() as client:
        before = max((event["serial"] for event in client.job_events(job)), default=0)
        asked: Json = client.migrate(job, node)
        end: Json | None = None
        if wait:
            end, asked = client.next_event(job, before, _is_over), client.job(job)
    if end and end["kind"] != "migrated":
        cause = str(end["cause"])
        raise Failure(cause if cause.startswith("not moved") else f"not moved to {node}: {cause}", Code.JOB_FAILED)
    if as_json:
        say_json(asked)
        return Code.DONE
    say(f"{of_job(asked)} {end['cause'] if end else f'will move to {node}'}.", "green" if end else "")
    steps = {"how it stands": f"schedulearn describe {job}"}
    next_steps(steps if end else {**steps, "where it is now": f"schedulearn explain {job}"})
    return Code.DONE


def _is_over(event: "Event") -> bool:
    return event["kind"] in _OVER or event["state"] in FINISHED
