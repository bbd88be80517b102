"""Where the service touches the world: each touch may be its last, and the store may fail for a while."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import sqlalchemy as sa

from schedulearn.core.domain.errors import StoreError
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Store, open_store
from schedulearn.store.condition import Access


class Crash(BaseException):
    """The process is gone. Nothing in the service may catch it."""


class Effects:
    """Counts the effects of one life of the service, and ends it before or after one of them."""

    def __init__(self) -> None:
        self._left: int | None = None  # effects until the crash; None: there is none to come
        self._outage_to_come: tuple[int, str] | None = None  # after so many effects, and how
        self.outage = ""  # how the store fails now: "", "refuses", "forgets" (fails after it has written)

    def crash_after(self, effects: int) -> None:
        self._left = effects

    def fail_after(self, effects: int, how: str) -> None:
        """The store fails from then on."""
        self._outage_to_come = effects, how

    def work_again(self) -> None:
        self._outage_to_come, self.outage = None, ""

    def defuse(self) -> None:
        self._left = None
        self.work_again()

    def step(self) -> None:
        """The place between two effects."""
        if self._outage_to_come:
            left, how = self._outage_to_come
            self._outage_to_come = (left - 1, how) if left else None
            self.outage = self.outage if left else how
        if self._left is None:
            return
        if self._left <= 0:
            self._left = None
            raise Crash
        self._left -= 1

    def doing(self, effect: Callable[..., Any], *args: Any) -> Any:
        self.step()
        result = effect(*args)
        self.step()
        return result


def opened(folder: DataFolder, effects: Effects) -> Store:
    """The real store on a scratch file: it need not survive the loss of power, only that of the process."""
    store = open_store(folder.database)
    database = store._db
    sa.event.listen(database.engine, "connect", _hurry)
    database.engine.dispose()
    read, write = database.read, database.write

    def fails(deed: Access, why: str) -> NoReturn:
        database.condition.failed(deed, why, time.monotonic() - 1.0)
        raise StoreError(why)

    @contextmanager
    def reading() -> Iterator[sa.Connection]:
        if effects.outage == "refuses":
            fails(Access.READ, "the store is away")
        with read() as connection:
            yield connection

    @contextmanager
    def writing() -> Iterator[sa.Connection]:
        effects.step()
        if effects.outage == "refuses":
            fails(Access.BEGIN, "the store is away")
        with write() as connection:
            yield connection
        effects.step()
        if effects.outage == "forgets":
            fails(Access.WRITE, "the store went away before it said that it had written")

    database.read, database.write = reading, writing  # type: ignore[method-assign]
    return store


def _hurry(connection: Any, _: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")
