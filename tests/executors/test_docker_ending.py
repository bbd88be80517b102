"""How the end of a container is understood: whether its program ended, or its engine took it along."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.outcome import Ending
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.docker.containers import State
from schedulearn.executors.docker.ending import Ender, Patience

SIGTERM, SIGKILL = 128 + 15, 128 + 9


@pytest.mark.parametrize(
    ("code", "seconds", "seen", "ending"),
    [
        (SIGTERM, 0.1, False, Ending.LOST),  # the engine was stopped while it started the container
        (SIGKILL, 15.0, False, Ending.LOST),
        (SIGTERM, 0.1, True, Ending.SIGNALLED),
        (SIGTERM, 3600.0, False, Ending.SIGNALLED),  # containers that run are kept by this engine
        (1, 0.1, False, Ending.EXITED),
        (0, 0.1, False, Ending.EXITED),
    ],
)
def test_an_engine_that_keeps_its_containers_ends_those_that_it_is_just_starting(
    tmp_path: Path, code: int, seconds: float, seen: bool, ending: Ending
) -> None:
    assert ended(tmp_path, State("c", "exited", {}, code, seconds=seconds), seen) is ending


def test_one_without_memory_was_not_taken_along(tmp_path: Path) -> None:
    state = State("c", "exited", {}, SIGKILL, out_of_memory=True, seconds=1.0)
    assert ended(tmp_path, state, seen=False) is Ending.OUT_OF_MEMORY


def ended(root: Path, state: State, seen: bool) -> Ending:
    containers = SimpleNamespace(keeps_running=lambda: True, saw_end=lambda _: seen, remove=lambda _: None)
    ender = Ender(cast(Any, containers), cast(Any, SimpleNamespace(now=lambda: 1000.0)), with_checkpoint=False)
    ender.fetch_all = lambda *_: None  # type: ignore[method-assign]
    worker = WorkerId(JobId(1), 1, 0)
    paths = WorkerPaths.of(root, worker)
    paths.folder.mkdir(parents=True)
    return ender.collect(worker, paths, state, silent=False, patience=Patience()).outcome.ending
