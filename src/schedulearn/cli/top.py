"""`top`: the live view."""

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import say_json
from schedulearn.cli.common.out import width as terminal_width
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, verb_app
from schedulearn.cli.view.words import FINISHED

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from schedulearn.cli.view.frame import FrameData
    from schedulearn.client import Client

app = verb_app()
_WITH_WORKERS = ("starting", "running", "paused", "stopping")
_ROWS = {"running": 50, "queued": 20, "finished": 10}  # at most so many of each are asked for
_EXPLAINED = 10  # queued jobs whose place and reason are asked for
_IN_A_PIPE = 10_000  # columns: nothing is shortened


@app.command()
def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and return.")] = False,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="How often it is drawn again.")] = 1.0,
    as_json: AsJson = False,
) -> int:
    """Live view: nodes and their use, running jobs with progress, loss and time left, the queue with reasons.

    Ctrl-C ends the view; jobs go on.

    \b
    Examples:
      schedulearn top
      schedulearn top --once
    """
    with connect() as client:
        if as_json:
            say_json(gather(client))
        elif once or not sys.stdout.isatty():
            _print_once(gather(client))
        else:
            with suppress(KeyboardInterrupt):  # the usual way to end it
                _live(client, every)
    return Code.DONE


def gather(client: "Client") -> "FrameData":
    """All that one frame shows, asked from the service."""
    running = client.jobs(state=_WITH_WORKERS, sort="id", limit=_ROWS["running"])
    queued = client.jobs(state=("queued",), sort="priority", order="desc", limit=_ROWS["queued"])
    finished = client.jobs(state=FINISHED, sort="id", order="desc", limit=_ROWS["finished"])
    return {
        "nodes": client.nodes(),
        "running": running["jobs"],
        "queued": queued["jobs"],
        "finished": sorted(finished["jobs"], key=lambda job: job["finished_at"] or "", reverse=True),
        "explain": {job["id"]: _explain(client, job["id"]) for job in queued["jobs"][:_EXPLAINED]},
        "counts": {"running": running["total"], "queued": queued["total"], "finished": finished["total"]},
        "policy": client.policy()["preset"],
    }


def _explain(client: "Client", job: int) -> "dict[str, object]":
    from schedulearn.client import ApiError

    try:
        return dict(client.explain(job))
    except ApiError:  # it was removed in between
        return {}


def _print_once(data: "FrameData") -> None:
    from rich.console import Console

    from schedulearn.cli.view.frame import frame

    now = datetime.now(UTC)
    if sys.stdout.isatty():
        Console(width=terminal_width()).print(frame(data, now, terminal_width()))
        return
    console = Console(width=_IN_A_PIPE, no_color=True)
    with console.capture() as capture:
        console.print(frame(data, now, _IN_A_PIPE))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _live(client: "Client", every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_picture(client, console), refresh=True)
            time.sleep(every)


def _picture(client: "Client", console: "Console") -> "RenderableType":
    """The present frame; or, while the service is away, that it is."""
    from rich.text import Text

    from schedulearn.cli.view.frame import frame
    from schedulearn.client import ServiceUnreachable

    try:
        return frame(gather(client), datetime.now(UTC), console.width, console.height)
    except ServiceUnreachable as error:
        return Text(f"{error}\nThe view goes on as soon as the service is back. Ctrl-C ends it.", style="red")
