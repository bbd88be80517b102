"""For all tests: Docker daemons and a Chromium, one of each for a process; what may run side by side; and property
tests try the same examples in every run, so that a change fails one.

`EXPLORE=1 make test` tries new examples instead. What it finds becomes an `@example`.
"""

import gc
import os
import signal

from hypothesis import HealthCheck, settings

from support.browser import browser
from support.docker import daemons
from support.lanes import pytest_collection_modifyitems
from support.summary import pytest_addoption, pytest_terminal_summary

# While tests are collected little becomes garbage, and to look for it again and again takes a tenth of all the time.
gc.disable()

__all__ = ["browser", "daemons", "pytest_addoption", "pytest_collection_modifyitems", "pytest_terminal_summary"]

settings.register_profile(
    "default", deadline=None, derandomize=not os.environ.get("EXPLORE"), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
# Whoever starts the tests in the background may have them ignore what a terminal sends, and programs started here would
# do the same.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """What is there now stays to the end."""
    gc.enable()
    gc.collect()
    gc.freeze()
