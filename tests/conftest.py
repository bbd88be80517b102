"""For all tests: Docker daemons; and property tests try the same examples in every run, so that a change fails one.

`EXPLORE=1 make test` tries new ones instead. What it finds becomes an `@example`.
"""

import os

from hypothesis import HealthCheck, settings

from support.docker import daemons

__all__ = ["daemons"]

settings.register_profile(
    "default", deadline=None, derandomize=not os.environ.get("EXPLORE"), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
