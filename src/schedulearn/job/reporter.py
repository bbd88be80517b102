"""`report`: a queue that never blocks, and a thread that empties it."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import threading
import time
from typing import SupportsFloat, SupportsInt

from schedulearn.job.sender import Sender, sender_from_environment, thinned
from schedulearn.job.spool import Point

MOST_WAITING = 20_000  # points in memory; above it every second one is dropped
_PERIOD = 0.5  # seconds between two rounds of the thread
_AT_EXIT = 2.0  # seconds that the end of the program may be delayed by a service that does not answer
_LONGEST_NAME = 200
_LARGEST_STEP = 2**53  # the largest integer that every reader of JSON keeps exact
_VALUES_OF_A_POINT = 100
_log = logging.getLogger("schedulearn.job")


class Reporter:
    """The reports of one process."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # Re-entrant, because a signal handler may report while the program is just doing so.
        self._lock = threading.RLock()
        self._handing_over = threading.RLock()
        self._points: list[Point] = []
        self._dropped = 0  # since it was told last
        self._next_step = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._complained: set[str] = set()

    def add(self, step: SupportsInt | None, metrics: dict[str, SupportsFloat]) -> None:
        values = {name: number for name, value in metrics.items() if (number := self._number(name, value)) is not None}
        if not values:
            return
        with self._lock:
            number = self._step(step)
            if number is None:
                return
            self._next_step = number + 1
            now = time.time()
            for part in _parts(values):
                self._points.append({"at": now, "step": number, "values": part})
            waiting = len(self._points)
            if waiting > MOST_WAITING:
                self._points = thinned(self._points)
                self._dropped += waiting - len(self._points)
            if self._thread is None:
                self._start()
        if waiting == MOST_WAITING // 2:
            self._wake.set()

    def flush(self, seconds: float) -> bool:
        """Hand everything over now, and try once to send it; whether the service has it all."""
        until = time.monotonic() + seconds
        self._hand_over()
        return self._sender.send(until, now=True)

    def finish(self) -> None:
        """The end of the program: what is still here goes to the spool at once, and to the service if it is quick."""
        self._hand_over()
        thread = self._thread
        if thread is None:
            return
        self._stopping = True
        self._wake.set()
        thread.join(_AT_EXIT)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="schedulearn-report", daemon=True)
        thread.start()
        self._thread = thread
        # The children of multiprocessing leave without the usual steps at exit; it has its own kind.
        helper = sys.modules.get("multiprocessing.util")
        if helper is not None and sys.modules["multiprocessing.process"].parent_process() is not None:
            helper.Finalize(None, self.finish, exitpriority=0)

    def _run(self) -> None:
        while True:
            self._wake.wait(_PERIOD)
            self._wake.clear()
            last = self._stopping
            try:
                self._hand_over()
                self._sender.send(time.monotonic() + (_AT_EXIT if last else math.inf), now=last)
            except Exception:
                _log.debug("reports could not be sent", exc_info=True)
            if last:
                return

    def _hand_over(self) -> None:
        with self._handing_over:
            with self._lock:
                points, self._points = self._points, []
                dropped, self._dropped = self._dropped, 0
            if points:
                self._sender.hand_over(points, MOST_WAITING, dropped)

    def _number(self, name: str, value: SupportsFloat) -> float | None:
        """The value as a number, or None: training must not fail over a report."""
        if len(name) > _LONGEST_NAME or not name.isprintable() or not name.strip():
            self._complain(name[:20], "is no name for a value")
            return None
        try:
            return float(value)
        except Exception as problem:  # whatever the value's own type raises
            self._complain(name, f"is not a number: {problem}")
            return None

    def _step(self, step: SupportsInt | None) -> int | None:
        if step is None:
            return self._next_step
        try:
            number = int(step)
        except Exception as problem:
            self._complain("step", f"is not a number: {problem}")
            return None
        return number if 0 <= number <= _LARGEST_STEP else None

    def _complain(self, name: str, why: str) -> None:
        if name not in self._complained and len(self._complained) < 20:
            self._complained.add(name)
            _log.warning("report: %s %s", name, why)


def _parts(values: dict[str, float]) -> list[dict[str, float]]:
    """The values in pieces that the service takes."""
    if len(values) <= _VALUES_OF_A_POINT:
        return [values]
    items = list(values.items())
    return [dict(items[i : i + _VALUES_OF_A_POINT]) for i in range(0, len(items), _VALUES_OF_A_POINT)]


_reporter: Reporter | None = None
_finding = threading.RLock()


def report(step: SupportsInt | None = None, **metrics: SupportsFloat) -> None:
    """Tell how the training goes: `report(step=120, loss=0.31, accuracy=0.9)`.

    Without `step` the steps are counted. Values are numbers or what `float` takes (a tensor with one element);
    others are left out. Does nothing outside of Schedulearn. It never waits and never raises.
    """
    try:
        reporter = _reporter or _find_reporter()
        if reporter is not None:
            reporter.add(step, metrics)
    except Exception:
        _log.debug("a report was lost", exc_info=True)


def flush(seconds: float = 2.0) -> bool:
    """Hand over what was reported, for example before `os._exit`; whether the service has all of it."""
    return _reporter.flush(seconds) if _reporter is not None else True


def _find_reporter() -> Reporter | None:
    global _reporter
    if "SCHEDULEARN_WORKER" not in os.environ:
        return None
    with _finding:
        if _reporter is None and (sender := sender_from_environment()):
            _reporter = Reporter(sender)
    return _reporter


def _finish() -> None:
    if _reporter is not None:
        _reporter.finish()


def _after_fork_in_child() -> None:
    """The parent keeps what was waiting; locks that were held there will never be released here."""
    global _reporter, _finding
    _reporter, _finding = None, threading.RLock()


atexit.register(_finish)
os.register_at_fork(after_in_child=_after_fork_in_child)
