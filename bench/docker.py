"""Containers by the Docker executor alone: to the first line of output, how many a second, to another engine."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import Figures, median
from bench.service import folder

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # where Docker Engines for tests are made
if TYPE_CHECKING:
    from support.docker import Daemons
    from support.docker_bench import DockerBench

_TIMES = 10
_MANY = 30  # started at once
_MOVE = 2.0  # seconds that a migration may cost beyond saving and loading


def measure() -> Figures:
    figures = Figures("Containers, one engine on this machine")
    try:
        with _engines() as daemons, folder() as root:
            from support.docker_bench import DockerBench

            with DockerBench(root, daemons(0)) as bench:
                _first_line(figures, bench)
                _many(figures, bench)
                _move(figures, bench, daemons)
    except _NoEngine as why:
        figures.note(f"left out: {why}")
    return figures


class _NoEngine(Exception):
    """Why there is none."""


@contextmanager
def _engines() -> Iterator["Daemons"]:
    import pytest

    from support.docker import Daemons

    daemons = Daemons()
    try:
        daemons(0)
        yield daemons
    except pytest.skip.Exception as why:
        raise _NoEngine(str(why)) from why
    finally:
        daemons.close()


def _first_line(figures: Figures, bench: "DockerBench") -> None:
    executor = bench.executor()
    started, printed, ended = [], [], []
    for job in range(1, _TIMES + 1):
        launch = bench.launch("echo first; while [ ! -e go ]; do sleep 0.01; done", job=job)
        begin = time.perf_counter()
        executor.start(launch)
        bench.started(launch)
        started.append(time.perf_counter() - begin)
        bench.until(lambda launch=launch: bench.output(launch))
        printed.append(time.perf_counter() - begin)
        bench.touch(launch, "go")
        begin = time.perf_counter()
        bench.ended(launch)
        ended.append(time.perf_counter() - begin)
    figures.add_times("start to container started", started)
    figures.add_times("start to first line in the service's log", printed)
    figures.add_times("end of the program to its end reported, files fetched", ended)


def _many(figures: Figures, bench: "DockerBench") -> None:
    executor = bench.executor()
    launches = [bench.launch("exec sleep 1000", job=1000 + job) for job in range(_MANY)]
    begin = time.perf_counter()
    for launch in launches:
        executor.start(launch)
    for launch in launches:
        bench.started(launch)
    seconds = time.perf_counter() - begin
    figures.add(f"containers started a second, {_MANY} at once", _MANY / seconds)
    begin = time.perf_counter()
    for launch in launches:
        executor.stop(launch.worker, launch.node, 0)
    for launch in launches:
        bench.ended(launch)
    figures.add("containers stopped and removed a second", _MANY / (time.perf_counter() - begin))


def _move(figures: Figures, bench: "DockerBench", daemons: "Daemons") -> None:
    """A job whose own saving and loading take no time: what is left is the move itself."""
    here, there = bench.executor(), bench.executor(daemon=daemons(1))
    command = "dd if=/dev/zero of=/checkpoint/weights bs=1M count=100 2>/dev/null; echo ready; exec sleep 1000"
    times = []
    for job in range(2001, 2001 + _TIMES // 2):
        first, second = (bench.launch(command, job=job, attempt=attempt) for attempt in (1, 2))
        here.start(first)
        bench.until(lambda first=first: b"ready" in bench.output(first))
        begin = time.perf_counter()
        here.stop(first.worker, first.node, 30)
        bench.ended(first)
        there.start(second)
        bench.started(second)
        times.append(time.perf_counter() - begin)
        there.stop(second.worker, second.node, 0)
        bench.ended(second)
    figures.add("moved to another engine with a checkpoint of 100 MB, median", median(times), "s", aim=_MOVE)
