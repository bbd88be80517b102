"""Threads above the quota collapse throughput: who is told what, and when."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common import control as module
from schedulearn.executors.common.control import Ack, change, control_text, read_ack
from schedulearn.executors.common.paths import JobPaths, WorkerPaths
from schedulearn.executors.process.executor import said_of_threads

BEFORE = Limits(1.0, 100, 1000)


class Worker:
    """Writes down in which order it was told and limited."""

    def __init__(self, refuses: bool = False, full_disk: bool = False, says: tuple[Ack | None, ...] = (None,)) -> None:
        self.refuses, self.full_disk = refuses, full_disk
        self.happened: list[tuple[str, float | None]] = []
        self.says = list(says)  # one after the other, the last one from then on

    def write(self, asked: Limits) -> Limits:
        if self.refuses:
            raise ExecutorError("no")
        self.happened.append(("limited", asked.cpus))
        return asked.over(BEFORE)

    def tell(self, limits: Limits) -> None:
        if self.full_disk:
            raise OSError("disk full")
        self.happened.append(("told", limits.cpus))

    def hear(self) -> Ack | None:
        said = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if said:
            self.happened.append(("has", said.threads))
        return said

    def change(self, cpus: float | None, **more: Any) -> Limits | None:
        return change(Limits(cpus, **more), BEFORE, 4.0, self.write, self.tell, self.hear)


def test_a_smaller_limit_is_told_before_it_holds() -> None:
    worker = Worker()
    assert worker.change(0.5) == Limits(0.5, 100, 1000)
    assert worker.happened == [("told", 0.5), ("limited", 0.5), ("told", 0.5)]


def test_a_larger_limit_is_told_when_it_holds() -> None:
    worker = Worker()
    worker.change(3.5)
    assert worker.happened == [("limited", 3.5), ("told", 3.5)]


def test_a_smaller_limit_holds_once_the_threads_are_fewer() -> None:
    worker = Worker(says=(Ack(4, False), Ack(2, False), Ack(1, False)))
    worker.change(0.5)
    has = [("has", 4), ("has", 2), ("has", 1)]
    assert worker.happened == [("told", 0.5), *has, ("limited", 0.5), ("told", 0.5)]


def test_a_worker_that_never_follows_is_limited_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACK_WITHIN", 0.1)
    worker = Worker(says=(Ack(4, False),))
    assert worker.change(0.5) == Limits(0.5, 100, 1000)
    assert worker.happened[-2:] == [("limited", 0.5), ("told", 0.5)]


@pytest.mark.parametrize("says", [None, Ack(4, True), Ack(1, False)])
def test_who_cannot_follow_or_has_so_few_threads_is_not_waited_for(says: Ack | None) -> None:
    worker = Worker(says=(says,))
    worker.change(0.5)
    assert [what for what, _ in worker.happened if what == "has"] == (["has"] if says else [])


@pytest.mark.parametrize(
    ("text", "ack"),
    [
        (b'{"threads": 2, "fixed": false}     \n', Ack(2, False)),
        (b'{"threads": 2, "fixed": true}', Ack(2, True)),
        (b"", None),
        (b"[2]", None),
        (b'{"threads": "many", "fixed": false}', None),
        (b"\xff", None),
        (b"[" * 10_000, None),
        (b'{"threads": -1, "fixed": true}', None),
        (b'{"threads": 1e999, "fixed": false}', None),
    ],
)
def test_whatever_a_job_writes_as_its_acknowledgement(text: bytes, ack: Ack | None) -> None:
    assert read_ack(text) == ack


def test_what_holds_already_is_not_touched() -> None:
    worker = Worker()
    assert worker.change(1.0, weight=100) is None
    assert worker.happened == []


@pytest.mark.parametrize(("cpus", "happened"), [(0.5, [("told", 0.5), ("told", 1.0)]), (3.0, [])])
def test_a_refusal_leaves_the_worker_with_the_truth(cpus: float, happened: list[object]) -> None:
    worker = Worker(refuses=True)
    with pytest.raises(ExecutorError):
        worker.change(cpus)
    assert worker.happened == happened


def test_who_cannot_be_told_of_a_smaller_limit_keeps_the_larger() -> None:
    worker = Worker(full_disk=True)
    with pytest.raises(OSError, match="disk full"):
        worker.change(0.5)
    assert worker.happened == []
    assert worker.change(2.0) == Limits(2.0, 100, 1000), "a larger one holds all the same"


@pytest.mark.parametrize(
    ("known", "others"), [(b'{"cpus": 9, "world_size": 3}', {"world_size": 3}), (b"", {}), (b"[1]", {}), (b"\xff", {})]
)
def test_the_control_file(known: bytes, others: dict[str, int]) -> None:
    text = json.loads(control_text(known, Limits(2.5, 7, 1000), 4.0))
    assert text == {"cpus": 2.5, "threads": 2, "memory": 1000, **others}
    assert json.loads(control_text(known, Limits(), 4.0))["threads"] == 4


def test_a_change_of_cores_alone_leaves_the_memory_as_it_was_told() -> None:
    text = control_text(b'{"memory": 500}', Limits(), 4.0)  # half of what is read back

    def tell(limits: Limits) -> None:
        nonlocal text
        text = control_text(text, limits, 4.0)

    for cpus in (0.5, 2.0):
        change(Limits(cpus), BEFORE, 4.0, lambda asked: asked.over(BEFORE), tell, lambda: None)
        assert json.loads(text) == {"cpus": cpus, "threads": max(1, int(cpus)), "memory": 500}
    change(Limits(memory=1 << 30), BEFORE, 4.0, lambda asked: asked.over(BEFORE), tell, lambda: None)
    assert json.loads(text)["memory"] == 1 << 30


@pytest.mark.parametrize("kind", ["large", "link", "pipe"])
def test_an_acknowledgement_that_is_no_small_file(tmp_path: Path, kind: str) -> None:
    paths = WorkerPaths(JobPaths(tmp_path), tmp_path)
    if kind == "large":
        paths.ack.write_bytes(b'{"threads": 2, "fixed": true}'.ljust(1 << 20))
    elif kind == "link":
        (tmp_path / "other").write_bytes(b'{"threads": 2, "fixed": true}')
        paths.ack.symlink_to(tmp_path / "other")
    else:
        os.mkfifo(paths.ack)
    assert said_of_threads(paths) == (Ack(2, True) if kind == "large" else None)
