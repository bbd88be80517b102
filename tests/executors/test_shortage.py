"""A machine that is short of something starts nothing: the node says so, and no job is to blame."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import NodeSeen, WorkerExited
from schedulearn.core.domain.outcome import Ending
from schedulearn.executors.common import shortage as module
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.shortage import Shortage, shortage
from schedulearn.executors.docker import executor as docker
from schedulearn.executors.docker.calls import Refused
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.process import executor as process
from support import deeds, disks
from support.bench import SystemClock
from support.clock import HandClock
from support.disks import fill
from support.docker_bench import DOCKER_NODE, DockerBench

FULL = "no space left on the disk"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of a few megabytes."""
    with disks.small_disk(tmp_path / "disk", 4) as folder:
        yield folder


def test_a_full_disk_pauses_the_node_until_there_is_room(bench: Any, small_disk: Path) -> None:
    bench.root = small_disk
    executor = bench.executor()
    clock = HandClock()
    executor.shortage = Shortage(small_disk, clock.now)
    filler = fill(small_disk)
    launch = bench.doing(deeds.FOREVER)
    executor.start(launch)
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.detail) == (Ending.NODE_FAULT, FULL)
    assert not outcome.counts_as_failure
    assert [node.problem for node in executor.nodes()] == [FULL]
    first, last = bench.recorder.events
    assert isinstance(first, NodeSeen), "before the end, so that no other job is sent there"
    assert first.node.problem == FULL
    assert isinstance(last, WorkerExited)

    clock.pass_time(60.0)
    assert [node.problem for node in executor.nodes()] == [FULL], "it was tried, and is still so"
    filler.unlink()
    clock.pass_time(60.0)
    assert [node.problem for node in executor.nodes()] == [""]
    executor.start(launch)
    bench.until(lambda: len(bench.recorder.found(WorkerExited, launch.worker)) == 2, "it has ended once and for all")
    again = bench.doing(deeds.FOREVER, job=2)
    executor.start(again)
    bench.started(again)
    executor.stop(again.worker, again.node, 0.0)
    bench.ended(again)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM, errno.EROFS])
def test_what_is_the_machines_fault(bench: Any, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(process, "spawn", refused)
    executor = bench.executor()
    launch = bench.doing(deeds.FOREVER)
    executor.start(launch)
    assert bench.ended(launch).ending is Ending.NODE_FAULT
    assert executor.nodes()[0].problem == shortage(number) != ""


def test_a_missing_program_is_the_jobs_own_fault(bench: Any) -> None:
    executor = bench.executor()
    launch = bench.doing(deeds.MISSING)
    executor.start(launch)
    assert bench.ended(launch).ending is Ending.NOT_STARTED
    assert executor.nodes()[0].problem == ""


def test_tries_become_rarer_and_begin_anew_after_a_calm_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tries = HandClock(), list[float]()
    short = True

    def attempt(_: Path) -> None:
        tries.append(clock.now())
        if short:
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(module, "_try", attempt)
    watched = Shortage(tmp_path, clock.now)
    begin = clock.now()
    watched.note(FULL)
    for _ in range(200):
        watched.now()
        clock.pass_time(1.0)
    gaps = [after - before for before, after in zip([begin, *tries], tries, strict=False)]
    assert gaps[:4] == [2.0, 4.0, 8.0, 16.0]
    assert max(gaps) <= 60.0
    short = False
    clock.pass_time(60.0)
    assert watched.now() == ""
    clock.pass_time(3600.0)
    watched.note(FULL)
    clock.pass_time(2.0)
    assert watched.now() == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("mkdir /var/lib/docker/overlay2/x: no space left on device", "no space left on the disk of its engine"),
        ("failed to create endpoint: Too many open files", "too many open files of its engine"),
        ("No such image: nothing:latest", ""),
    ],
)
def test_an_engine_that_is_short_of_something_pauses_its_node(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: str, why: str
) -> None:
    def refuse(*_: object) -> None:
        raise Refused(500, words)

    monkeypatch.setattr(docker, "begin", refuse)
    bench = DockerBench(root, None)  # type: ignore[arg-type]
    executor = docker.DockerExecutor(root, bench.recorder, SystemClock(), DOCKER_NODE, Engine(f"unix://{root}/none"))
    try:
        launch = bench.launch("true")
        executor.start(launch)
        outcome = bench.ended(launch)
    finally:
        executor.close()
    assert (outcome.ending, outcome.detail) == ((Ending.NODE_FAULT, why) if why else (Ending.NOT_STARTED, words))
    recorded = read_end(bench.paths(launch))
    assert recorded
    assert recorded.outcome == outcome, "the next life tells the same"
    assert executor.shortage.now() == why
    assert [event.node.problem for event in bench.recorder.events if isinstance(event, NodeSeen)] == [why] * bool(why)
