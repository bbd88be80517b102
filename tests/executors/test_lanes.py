"""Work in the background: in order, and never dropped for a shortage that passes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from schedulearn.executors.common import lanes as module
from schedulearn.executors.common.lanes import Lanes


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lanes]:
    monkeypatch.setattr(module, "AGAIN_AFTER", (0.0, 0.0))
    made = Lanes(2)
    yield made
    made.close()


def done(lanes: Lanes, key: str = "a") -> None:
    """Wait until all that was submitted before is worked off."""
    over = threading.Event()
    lanes.submit(key, over.set)
    assert over.wait(60)


def test_a_task_that_fails_is_tried_again_before_the_next_one(lanes: Lanes) -> None:
    told = []

    def short() -> None:
        told.append("first")
        if told.count("first") < 3:
            raise OSError(24, "too many open files")

    lanes.submit("a", short)
    lanes.submit("a", lambda: told.append("second"))
    done(lanes)
    assert told == ["first", "first", "first", "second"]


def test_one_that_never_works_does_not_hold_up_the_rest(lanes: Lanes) -> None:
    tried = []

    def broken() -> None:
        tried.append(None)
        raise ValueError("a fault of ours")

    lanes.submit("a", broken)
    done(lanes)
    assert len(tried) == 3


def test_nothing_waits_for_a_thread_that_cannot_be_started(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "_adjust_thread_count", refused)
    done(lanes)
    done(lanes, "b")


def test_closing_waits_for_no_further_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER", (3600.0,))
    lanes, tried = Lanes(1), threading.Event()

    def fails() -> None:
        tried.set()
        raise OSError("no")

    lanes.submit("a", fails)
    assert tried.wait(60)
    lanes.close()
