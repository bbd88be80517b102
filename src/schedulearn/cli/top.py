"""`top`: the live view."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import colourful, say_json
from schedulearn.cli.common.out import width as terminal_width
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, option, verb_app
from schedulearn.wire.clean import clean
from schedulearn.wire.types import FINISHED, JobState
from schedulearn.wire.words import WITH_WORKERS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from schedulearn.cli.view.frame import FrameData
    from schedulearn.client import Client

app = verb_app()
_IN_A_PIPE = 10_000  # columns: nothing is shortened


@app.command()
def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and return.")] = False,
    every: Annotated[float, option("SECONDS", "How often to refresh.", min=0.2)] = 1.0,
    as_json: AsJson = False,
) -> int:
    """Live view: nodes and their use, running jobs with progress, loss and time left, the queue with reasons.

    Ctrl-C ends the view; jobs keep running.

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
    seen = client.overview()
    groups: dict[str, Sequence[JobState]] = {"running": WITH_WORKERS, "queued": ["queued"], "finished": FINISHED}
    counted = {name: sum(seen["counts"].get(state, 0) for state in states) for name, states in groups.items()}
    return {
        "nodes": seen["nodes"],
        "running": seen["running"],
        "queued": [one["job"] for one in seen["waiting"]],
        "finished": seen["finished"],
        "explain": {one["job"]["id"]: one["why"] for one in seen["waiting"]},
        "counts": counted,
        "policy": seen["policy"]["preset"],
    }


def _print_once(data: "FrameData") -> None:
    from rich.console import Console

    from schedulearn.cli.view.frame import frame

    now = datetime.now(UTC)
    if sys.stdout.isatty():
        Console(width=terminal_width()).print(frame(data, now, terminal_width()))
        return
    painted = colourful(sys.stdout)
    console = Console(width=_IN_A_PIPE, force_terminal=painted, color_system="standard" if painted else None)
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
        return Text(f"{clean(error)}\nThe view goes on as soon as the service is back. Ctrl-C ends it.", style="red")
