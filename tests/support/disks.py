"""Small disks, and how to fill them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A folder that holds a few megabytes; the test is skipped where none can be had."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave nothing free."""
    file = folder / "filler"
    with open(file, "wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while filler.write(b"x" * size):
                    pass
            except OSError:
                continue
    return file


def fill_at_once(folder: Path) -> None:
    """In one step: what somebody gives up a moment later stays free."""
    with open(folder / "filler", "wb") as filler:
        while True:
            try:
                os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(folder).free)
                return
            except OSError:  # somebody has just written something
                continue
