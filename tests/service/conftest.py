"""A real store and a clock that the test moves; nothing else of a service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.service.common.config import DataFolder
from schedulearn.store import Store, open_store
from support.clock import HandClock
from support.scratch import tmp_path

__all__ = ["tmp_path"]


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A fresh database, made once."""
    path = tmp_path_factory.mktemp("migrated") / "schedulearn.db"
    with open_store(path) as store:
        store.backup(path.with_name("copy.db"))
    return path.with_name("copy.db").read_bytes()


@pytest.fixture
def folder(tmp_path: Path, migrated: bytes) -> DataFolder:
    data = DataFolder(tmp_path / "data")
    data.root.mkdir()
    data.database.write_bytes(migrated)
    return data


@pytest.fixture
def store(folder: DataFolder) -> Iterator[Store]:
    with open_store(folder.database) as opened:
        yield opened


@pytest.fixture
def clock() -> HandClock:
    return HandClock()
