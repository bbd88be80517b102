"""`migrate`: move a running job to another node."""

from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import answer, answer_table, next_steps, of_job, say
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, verb_app
from schedulearn.cli.view.table import Cell, Column
from schedulearn.wire.clean import clean
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import Json

if TYPE_CHECKING:
    from schedulearn.wire.types import Event

app = verb_app()
COLUMNS = (
    Column("NODE", lambda move: Cell(move["node"], "bold"), flex=True),
    Column("CAN TAKE THE JOB", lambda move: move["problem"] or "yes", flex=True, wrap=True),
)
_OVER = ("migrated", "not_migrated", "pause")  # events after which nothing more comes of it


@app.command()
def migrate(
    job: Job,
    node: Annotated[
        str | None, typer.Argument(metavar="NODE", help="Where to move it; without it, the possible nodes are listed.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the job runs there, or when the move has failed.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Move a running job to another node, with all its workers. It saves, stops, and continues there.

    The job has its grace period to save; its new place is reserved meanwhile. A job without a checkpoint starts over.
    Without a node nothing moves: the nodes are listed, with the reason for each that cannot take the job now.

    \b
    Examples:
      schedulearn migrate 17
      schedulearn migrate 17 gpu2
      schedulearn migrate 17 gpu2 --wait
    """
    if node is None:
        if wait:
            raise Failure(
                "--wait needs a node", field="NODE", allowed=f"`schedulearn migrate {job}` lists the possible ones"
            )
        return _list(job, as_json)
    with connect() as client:
        before = max((event["serial"] for event in client.job_events(job)), default=0)
        asked: Json = client.migrate(job, node)
        end: Json | None = None
        if wait:
            end, asked = client.next_event(job, before, _is_over), client.job(job)
    if end and end["kind"] != "migrated":
        cause = str(end["cause"])
        raise Failure(cause if cause.startswith("not moved") else f"not moved to {node}: {cause}", Code.JOB_FAILED)
    words = f"{of_job(asked)} {clean(end['cause']) if end else f'will move to {node}'}."
    steps = {"details": f"schedulearn describe {job}"} | ({} if end else {"status": f"schedulearn explain {job}"})
    answer(asked, as_json, words, "green" if end else "", steps)
    return Code.DONE


def _list(job: int, as_json: bool) -> int:
    with connect() as client:
        found = client.possible_moves(job)
    if not found and not as_json:
        say("There is no other node to move the job to.")
        return Code.DONE
    answer_table(COLUMNS, found, as_json)
    able = [one["node"] for one in found if not one["problem"]]
    if able and not as_json:
        next_steps({"move it": f"schedulearn migrate {job} {able[0]}"})
    return Code.DONE


def _is_over(event: "Event") -> bool:
    return event["kind"] in _OVER or event["state"] in FINISHED
