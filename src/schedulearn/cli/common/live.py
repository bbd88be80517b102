"""What a live run of an experiment needs from the command line."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import note

if TYPE_CHECKING:
    from schedulearn.lab.experiments.runner import Outcome, Told
    from schedulearn.lab.experiments.types import Experiment
    from schedulearn.lab.live.service import Place


def live_place(executor: str, image: str) -> "Place":
    from schedulearn.lab.live.service import Place

    if executor == "docker" and not image:
        raise Failure("containers need an image", field="--image", allowed="one with Python and torch")
    return Place(executor, image if executor == "docker" else "")


def run_with_training(one: "Experiment", seeds: int, scale: float, place: "Place", told: "Told") -> "Outcome":
    from schedulearn.lab.live.entries import run_live
    from schedulearn.lab.live.service import LiveError

    try:
        with _stopped_as_by_ctrl_c():
            return run_live(one, seeds, scale, place, told, lambda words: note(words, "dim"))
    except LiveError as error:
        problem, *more = str(error).splitlines()
        raise Failure(f"{one.name}: {problem}", hint="\n".join(more)) from error


@contextmanager
def _stopped_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM unwinds, too: jobs and the private service are not left behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
