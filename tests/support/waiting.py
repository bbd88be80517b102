"""Waiting for something that announces itself by no event."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 60.0, what: str = "") -> T:
    """What the condition returns, once that is true. AssertionError if it does not come true in time."""
    end = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}")
        time.sleep(0.01)
