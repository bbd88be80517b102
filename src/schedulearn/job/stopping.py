"""Being asked to stop: SIGTERM sets a flag, the program looks at it where its state is whole."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from schedulearn.job.identity import Info, info
from schedulearn.job.reporter import flush

STOPPED = 128 + signal.SIGTERM  # what a shell says of a program that ended so
_log = logging.getLogger("schedulearn.job")
_asked = False
_installed = False
_earlier: Callable[[int, FrameType | None], Any] | int | None = None  # the handler that was there before


def init() -> Info | None:
    """Begin: from now on SIGTERM does not end the program, but `step_boundary` says that it has come.

    Call it once in the main thread; again does nothing. A handler that was there before is still called. Outside of
    Schedulearn nothing changes, and None is returned.
    """
    global _installed, _earlier
    found = info()
    if found is None or _installed:
        return found
    if threading.current_thread() is not threading.main_thread():
        _log.warning("init was called outside of the main thread: the program will not notice that it should stop")
        return found
    _installed = True
    _earlier = signal.signal(signal.SIGTERM, _on_term)
    os.register_at_fork(after_in_child=_after_fork_in_child)
    return found


def stop_asked() -> bool:
    """Whether SIGTERM has come: save and end soon, before the grace period is over. Always false without `init`."""
    return _asked


def step_boundary() -> bool:
    """Call it after every step. Sets the threads to the present limit, and returns whether to stop now."""
    threads = sys.modules.get("schedulearn_threads")  # there if the service put it on the path of this job
    if threads is not None:
        try:
            threads.at_step()
        except Exception:
            _log.debug("the number of threads was not set", exc_info=True)
    return _asked


def leave(status: int = STOPPED) -> NoReturn:
    """End the program at this point, with what was reported handed over."""
    flush()
    raise SystemExit(status)


def _on_term(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    if callable(_earlier):
        _earlier(number, frame)


def _after_fork_in_child() -> None:
    """A helper process does not look at the flag; its parent ends it with SIGTERM."""
    global _asked, _installed
    _asked = _installed = False
    if signal.getsignal(signal.SIGTERM) is _on_term:
        signal.signal(signal.SIGTERM, _earlier)
