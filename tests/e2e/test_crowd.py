"""Thousands of connections that say nothing: the service answers everybody else, and starts their jobs."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from schedulearn.api.http.connections import RESERVED, Limits
from support.service import PATIENCE, Service

MANY = 6000  # more than there are places


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Enough of them for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MANY + 1000:
        pytest.skip(f"a process may open only {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 1000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("options", [(), ("--tls",)], ids=["plain", "tls"])
@pytest.mark.usefixtures("descriptors")
def test_half_sent_heads_keep_nobody_out(tmp_path: Path, options: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(Service(tmp_path / "data", *options))
        for number in range(MANY):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE))
            silent.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            if number % 1000 == 999:
                with service.client() as client:  # a new connection each time
                    assert client.health()["status"] == "ok"
        assert len(list(Path(f"/proc/{service.pid}/fd").iterdir())) <= Limits().total + RESERVED
        with service.client() as client:
            job = client.submit({"command": "echo there", "resources": {"cpus": 0.1}, "workdir": None})["id"]
            assert client.wait(job)["state"] == "succeeded"
            assert client.log_part(job, 1, 0, tail=1)[0] == b"there\n"


@pytest.fixture
def few() -> Iterator[int]:
    """What most systems give a program that does not ask for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    yield 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_service_takes_what_it_can_get_and_jobs_keep_what_they_had(tmp_path: Path, few: int) -> None:
    with Service(tmp_path / "data", anew=True) as service, service.client() as client:
        soft, hard = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
        assert soft == min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
        job = client.submit({"command": "ulimit -S -n", "resources": {"cpus": 0.1}, "workdir": None})["id"]
        client.wait(job)
        assert client.log_part(job, 1, 0, tail=1)[0].decode().strip() == str(few)
