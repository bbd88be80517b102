"""For all tests: Docker daemons; what may run side by side; and property tests try the same examples in every run, so
that a change fails one.

`EXPLORE=1 make test` tries new examples instead. What it finds becomes an `@example`.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from support.docker import daemons
from support.failed import pytest_addoption, pytest_terminal_summary

__all__ = ["daemons", "pytest_addoption", "pytest_terminal_summary"]

settings.register_profile(
    "default", deadline=None, derandomize=not os.environ.get("EXPLORE"), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
# Whoever starts the tests in the background may have them ignore what a terminal sends, and programs started here would
# do the same.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of one file stay in one process; all that need a daemon of Docker share one process and its daemons."""
    for item in items:
        needs_docker = "daemons" in getattr(item, "fixturenames", ()) or item.get_closest_marker("docker")
        item.add_marker(pytest.mark.xdist_group("docker" if needs_docker else item.nodeid.partition("::")[0]))
