"""Where tests keep their files: in memory, where there is room. The store waits for its disk at each change."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30  # bytes


def in_memory() -> Path | None:
    """None: there is no such place, or too little of it, or no program may be started from there."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    there = os.statvfs(_MEMORY)
    small, barred = there.f_bavail * there.f_frsize < _ENOUGH, there.f_flag & os.ST_NOEXEC
    return None if small or barred else _MEMORY


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Instead of pytest's own, in the conftest of a folder whose tests keep a database each."""
    with tempfile.TemporaryDirectory(prefix="sl-test-", dir=in_memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)
