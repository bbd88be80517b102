"""What the parts of the store share."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from schedulearn.store.engine import Database

T = TypeVar("T")
_AT_ONCE = 5000  # ids in one statement: databases limit how many parameters it may have


class Part:
    """A part of the store: some methods on one database."""

    def __init__(self, database: Database) -> None:
        self._db = database


def in_chunks(ids: Iterable[T], size: int = _AT_ONCE) -> Iterator[list[T]]:
    whole = list(ids)
    for start in range(0, len(whole), size):
        yield whole[start : start + size]
