"""One service for the tests of a module, and a client of it."""

from collections.abc import Iterator

import pytest

from schedulearn.client import Client
from support.jobs import delete_all
from support.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    if not service.running:  # a test before left it dead
        service.start()
    with service.client() as made:
        yield made
        if service.running:
            delete_all(made)  # a test that failed half-way must not be in the next one's way
