"""Jobs in containers talk to a service with TLS out of their own networks, and to nobody else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.pinned import address_of
from schedulearn.service.common.config import Options
from schedulearn.service.upkeep.certificate import certificate_for
from support.base_image import IMAGE
from support.docker import Daemon
from support.jobs import SMALL, delete_all, ended, kinds, output, submit
from support.service import PATIENCE, Service
from support.tls import Listener
from support.waiting import wait_until

# Nothing but HTTP can bring its report: there is no spool that the service could read instead.
BEGIN = """
import os
del os.environ["SCHEDULEARN_SPOOL"]
from schedulearn import job
from schedulearn.job.control import read_control
from schedulearn.job.group import Away, Rendezvous
from schedulearn.job.service import service_from_environment
"""
REPORTS = f"""{BEGIN}
print(os.environ["SCHEDULEARN_URL"], flush=True)
job.report(step=3, loss=0.25)
while not job.flush():
    pass
job.save({{"weights": [1, 2]}}, 3)
"""
# Every worker says something to the next one.
MEETS = f"""{BEGIN}
print(os.environ["SCHEDULEARN_URL"], flush=True)
service, joined = Rendezvous(service_from_environment()), None
def patiently(call):
    while True:
        try:
            return call()
        except Away as problem:
            print(problem, flush=True)
while not (joined and joined.group):
    control = read_control()
    joined = patiently(lambda: service.join(control.generation, control.members, -1))
own, next = str(joined.rank), str((joined.rank + 1) % joined.size)
patiently(lambda: service.set(joined.group, own, "from " + own))
heard = {{}}
while not heard:
    heard = patiently(lambda: service.get(joined.group, [next], 15, lambda: False))
print(f"{{joined.rank}} of {{joined.size}} heard {{heard[next]}}", flush=True)
"""
# Somebody else answers where it is told to find the service.
IS_MISLED = f"""{BEGIN}
host, _, rest = os.environ["SCHEDULEARN_URL"].rpartition(":")
os.environ["SCHEDULEARN_URL"] = f"{{host}}:{{os.environ['OTHER_PORT']}}#{{rest.partition('#')[2]}}"
service, said = Rendezvous(service_from_environment()), ""
while "its certificate" not in said:  # a busy machine may not even show it in time
    job.report(step=3, loss=0.25)
    assert not job.flush()
    try:
        service.waiting()
    except Away as problem:
        said = str(problem)
        print(said, flush=True)
"""


@pytest.fixture(scope="module")
def engine(daemons: Any) -> Iterator[Daemon]:
    found: Daemon = daemons(0)
    if not found.bridge:
        pytest.skip("this machine lets us make no bridge for containers")
    yield found
    daemons.clean()


@pytest.fixture(scope="module")
def gateway(engine: Daemon) -> str:
    """The address under which containers of this engine reach the machine."""
    with engine.client() as client:
        (found,) = client.api.inspect_network("bridge")["IPAM"]["Config"]
        return str(found["Gateway"])


@pytest.fixture(scope="module")
def service(engine: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Containers have networks of their own, and nothing else."""
    options = ("--tls", "--host", "0.0.0.0", "--no-host-network")
    with Service(tmp_path_factory.mktemp("tls") / "data", *options) as running, running.client() as client:
        wait_until(client.nodes, PATIENCE, "the machine itself is a node")
        client.drain("local")
        client.add_node(engine.address, "one", IMAGE)
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as made:
        yield made
        delete_all(made)


def begin(client: Client, code: str, **more: Any) -> int:
    asked = {"command": ["python3", "-u", "-c", code], "workdir": None, "image": IMAGE, "resources": SMALL}
    return submit(client, {**asked, **more})


def test_its_report_arrives_and_its_checkpoint_is_kept(client: Client, service: Service) -> None:
    job = begin(client, REPORTS)
    done = ended(client, job)
    said = output(client, job).decode()
    assert done["state"] == "succeeded", said
    assert done["progress"]["step"] == 3
    pin = address_of(service.url).pin
    assert said == f"https://host.docker.internal:{service.port}#sha256={pin}\n"
    assert list((service.data / "jobs" / str(job) / "checkpoint").glob("save-*/state.pickle"))


def test_it_says_nothing_to_somebody_with_another_certificate(client: Client, service: Service, tmp_path: Path) -> None:
    other = certificate_for(Options(tmp_path, tls=True))
    assert other
    with Listener(other, "0.0.0.0") as listener:
        job = begin(client, IS_MISLED, env={"OTHER_PORT": str(listener.port)})
        done = ended(client, job)
        assert set(listener.end()) == {b""}, "it was there, and said nothing"
        said = output(client, job).decode().splitlines()
        assert done["state"] == "succeeded", said
    why = f"its certificate has the fingerprint sha256={other.pin}, not {address_of(service.url).pin}"
    assert f"{why}: nothing was sent to it" in said
    assert client.job(job)["progress"] is None


def test_elastic_workers_meet_at_the_address_that_jobs_are_told(client: Client, service: Service, gateway: str) -> None:
    service.options += ("--url", f"https://{gateway}:{service.port}")
    service.restart()
    job = begin(client, MEETS, launcher="elastic", workers=2)
    assert ended(client, job)["state"] == "succeeded", output(client, job)
    url = f"https://{gateway}:{service.port}#sha256={address_of(service.url).pin}"
    for rank in (0, 1):
        said = output(client, job, worker=rank).decode().splitlines()
        assert (said[0], said[-1]) == (url, f"{rank} of 2 heard from {1 - rank}")
    assert kinds(client, job).count("started") == 1
