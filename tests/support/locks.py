"""Playing a role on a data folder for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.roles import RoleLock


@contextmanager
def held(folder: DataFolder, role: str) -> Iterator[None]:
    lock = RoleLock(folder, role)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()
