"""Networks of containers: workers of one job reach each other, nobody reaches another's; and none is left behind."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher, Workers
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.docker.calls import Calls
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.networks import OWN, SHARED, Networks, check_networks, network_for
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from support.bench import Workbench
from support.docker import GUARDED, Daemons
from support.docker_bench import DockerBench

TWO = Workers(2, 2, 2)
LAB = "http://lab:7311"

# --- who has which


@pytest.mark.parametrize(
    ("spec", "more", "network"),
    [
        ({}, {}, OWN),
        ({"workers": TWO}, {}, OWN),
        ({"workers": Workers(1, 1, 2)}, {}, OWN),
        ({"workers": TWO, "launcher": Launcher.TORCHRUN}, {}, OWN),
        ({"workers": TWO, "launcher": Launcher.HOROVOD}, {}, OWN),
        ({"workers": TWO}, {"together": False}, SHARED),
        ({"launcher": Launcher.ELASTIC}, {}, OWN),
        ({"workers": TWO, "launcher": Launcher.ELASTIC}, {"url": LAB}, OWN),
        ({"workers": TWO, "launcher": Launcher.ELASTIC}, {"url": LAB, "elsewhere": True}, SHARED),
        ({"workers": TWO, "launcher": Launcher.ELASTIC}, {"url": "http://127.0.0.1:1"}, SHARED),
        ({"workers": TWO, "launcher": Launcher.HOROVOD}, {"elsewhere": True}, OWN),  # never on another node
    ],
)
def test_who_has_a_network_of_its_own(tmp_path: Any, spec: Any, more: Any, network: str) -> None:
    launch = Workbench(tmp_path).launch("true", spec=spec, **more)
    found, why = network_for(launch, Rules(), "bridge")
    assert found == network
    assert bool(why) == (network == SHARED)  # whoever has none is told why
    if network == SHARED:
        with pytest.raises(ExecutorError, match="not allowed here"):
            network_for(launch, Rules(host_network=False), "bridge")
    else:
        assert network_for(launch, Rules(host_network=False), "bridge") == (OWN, "")
    assert network_for(launch, Rules(), SHARED) == (SHARED, "its engine has no bridge network")
    assert network_for(launch, Rules(network="none"), "bridge") == ("none", "")


@pytest.mark.parametrize("text", ["", "10.0.0.0", "10.0.0.1/8", "8.8.0.0/16", "10.0.0.0/25", "fd00::/64", "x"])
def test_ranges_that_cannot_be_used(text: str) -> None:
    with pytest.raises(InvalidSpec, match="--networks"):
        check_networks(text)


def test_ranges_that_can_be_used() -> None:
    for text in ("198.18.0.0/15", "10.200.0.0/16", "192.168.7.0/24"):
        check_networks(text)


@given(st.integers(1, 500), st.lists(st.integers(0, 255), max_size=250), st.text("ab", max_size=3))
def test_networks_are_large_enough_and_free(size: int, taken: list[int], name: str) -> None:
    networks = Networks(None, "abc", Rules(networks="10.7.0.0/16"))  # type: ignore[arg-type]
    known = [{"IPAM": {"Config": [{"Subnet": f"10.7.{number}.0/24"}]}} for number in taken]
    for subnet in networks._free(name, size, known):
        assert subnet.num_addresses >= size + 3
        assert subnet.subnet_of(IPv4Network("10.7.0.0/16"))
        assert not any(subnet.overlaps(IPv4Network(f"10.7.{number}.0/24")) for number in taken)
        break
    else:
        assert len(set(taken)) > 100  # there is room unless most of it is taken


# --- on a real engine, with its firewall


@pytest.fixture
def guarded(root: Any, daemons: Daemons) -> Iterator[DockerBench]:
    with DockerBench(root, daemons(GUARDED)) as bench:
        yield bench


LISTEN = """
import socket
listening = socket.create_server(("0.0.0.0", 15000))
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    connection.sendall(b"secret")
    connection.close()
"""
CONNECT = """
import socket, sys
for host in sys.argv[1:]:
    try:
        with socket.create_connection((host, 15000), 2) as connection:
            print(host, connection.recv(10).decode(), flush=True)
    except OSError as error:
        print(host, "closed", flush=True)
"""


def connecting(bench: DockerBench, *hosts: str, **more: Any) -> Launch:
    return bench.launch(("python3", "-u", "-c", CONNECT, *hosts), **more)


def address_of(bench: DockerBench, launch: Launch) -> str:
    (network,) = bench.inspect(launch)["NetworkSettings"]["Networks"].values()
    return str(network["IPAddress"])


@pytest.mark.parametrize("workers", [Workers(1, 1, 1), Workers(1, 1, 2)])
def test_jobs_do_not_reach_each_other(guarded: DockerBench, workers: Workers) -> None:
    executor = guarded.executor()
    server = guarded.python(LISTEN, spec={"workers": workers})
    executor.start(server)
    guarded.ready(server)
    address = address_of(guarded, server)
    with guarded.daemon.client() as client:  # the server itself does: somebody listens
        made = client.api.exec_create(guarded.name(server), ["python3", "-c", CONNECT, address])
        assert client.api.exec_start(made["Id"]) == f"{address} secret\n".encode()
    other = connecting(guarded, address, job=2, spec={"workers": workers})
    executor.start(other)
    assert guarded.ended(other).ok
    assert guarded.output(other) == f"{address} closed\n".encode()
    executor.stop(server.worker, server.node, 0)
    guarded.ended(server)
    guarded.until(lambda: not guarded.networks(), "both networks are removed")


RING = """
import os, socket
rank, first = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(first) as listening:
        connection, _ = listening.accept()
        connection.sendall(b"hello from worker 0")
else:
    import time
    while True:
        try:
            with socket.create_connection(first) as connection:
                print(connection.makefile().read(), flush=True)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print("host", first[0], flush=True)
"""


def ring(bench: DockerBench, **more: Any) -> list[Launch]:
    more = {"spec": {"workers": TWO}, "world_size": 2, "master_port": 15_001, **more}
    return [bench.python(RING, rank=rank, **more) for rank in (0, 1)]


def test_workers_of_one_job_meet(guarded: DockerBench) -> None:
    executor = guarded.executor()
    zero, one = ring(guarded)
    executor.start(one)  # which comes first does not matter
    executor.start(zero)
    assert guarded.ended(zero).ok, guarded.output(zero)
    assert guarded.ended(one).ok, guarded.output(one)
    said = guarded.output(one).decode().splitlines()
    assert said[0] == "hello from worker 0"
    assert said[1].startswith("host 198.18.") or said[1].startswith("host 198.19.")
    assert all(not event.note for event in guarded.recorder.events if hasattr(event, "note"))
    guarded.until(lambda: not guarded.networks(), "the network is removed")


def test_a_worker_whose_first_never_starts_does_not_wait_for_it(guarded: DockerBench) -> None:
    executor = guarded.executor()
    zero, one = ring(guarded)
    executor.start(replace(zero, uid=0, gid=0))
    assert guarded.ended(zero).ending is Ending.NOT_STARTED
    executor.start(one)
    guarded.started(one)
    executor.stop(one.worker, one.node, 0)
    guarded.ended(one)


def test_a_worker_that_waits_for_its_first_can_be_stopped(guarded: DockerBench) -> None:
    executor = guarded.executor()
    _, one = ring(guarded)
    executor.start(one)
    guarded.until(guarded.containers, "it is there, and waits")
    executor.stop(one.worker, one.node, 30)
    assert guarded.ended(one).ending is Ending.LOST
    assert guarded.containers() == []


def test_who_shares_the_servers_network_is_told(guarded: DockerBench) -> None:
    executor = guarded.executor()
    launches = ring(guarded, together=False)
    for launch in launches:
        executor.start(launch)
    for launch in launches:
        assert guarded.ended(launch).ok
        assert "its workers are on several servers" in guarded.started(launch).note
    assert guarded.output(launches[1]).endswith(b"host 127.0.0.1\n")
    assert guarded.networks() == []
    # It is still known to the next life of the service.
    guarded.executor().adopt(launches[0].worker, launches[0].node)
    guarded.ended(launches[0], 2)
    assert "several servers" in guarded.started(launches[0], 2).note


def test_who_joins_goes_where_the_others_are(guarded: DockerBench) -> None:
    """Another server was added while the job ran: a group must not be torn apart."""
    spec = {"workers": Workers(1, 1, 3), "launcher": Launcher.ELASTIC}
    first = guarded.launch("exec sleep 1000", url=LAB, spec=spec)
    executor = guarded.executor()
    executor.start(first)
    guarded.started(first)
    second = guarded.launch("exec sleep 1000", rank=1, url=LAB, spec=spec, elsewhere=True)
    executor.start(second)
    guarded.started(second)
    assert [*guarded.inspect(first)["NetworkSettings"]["Networks"]] == [
        *guarded.inspect(second)["NetworkSettings"]["Networks"]
    ]
    far = guarded.launch("true", rank=2, url=LAB, spec=spec, elsewhere=True)
    executor.start(replace(far, node=NodeName("far")))
    outcome = guarded.ended(far)
    assert outcome.ending is Ending.NOT_STARTED
    assert "a network of their own on here" in outcome.detail
    for launch in (first, second):
        executor.stop(launch.worker, launch.node, 0)
        guarded.ended(launch)


def test_a_network_outlives_the_service_and_not_its_job(guarded: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rounds, "EVERY", 0.1)
    launch = guarded.launch("echo ready; exec sleep 1000")
    first = guarded.executor()
    first.start(launch)
    guarded.ready(launch)
    first.close()
    (network,) = guarded.networks()
    calls = Calls(Engine(guarded.daemon.address))
    stale = Networks(calls, instance_of(guarded.root), Rules())
    stale.hold("7.1", "7.1.0", 1)  # of a worker that was never made
    calls.close()
    second = guarded.executor()
    guarded.until(lambda: guarded.networks() == [network], "what nobody needs is removed, the other stays")
    second.adopt(launch.worker, launch.node)
    guarded.started(launch, 2)
    second.stop(launch.worker, launch.node, 0)
    guarded.ended(launch)
    guarded.until(lambda: not guarded.networks(), "the network is removed")


def test_more_networks_than_an_engine_has_addresses_for(guarded: DockerBench) -> None:
    """An engine's own choice ends after some thirty; and a range that is used up is said."""
    calls = Calls(Engine(guarded.daemon.address))
    networks = Networks(calls, instance_of(guarded.root), Rules(networks="10.99.0.0/24"))
    made = [networks.hold(f"{job}.1", "worker", 1).subnet for job in range(16)]
    assert len(set(made)) == 16
    with pytest.raises(ExecutorError, match=r"no room left in 10\.99\.0\.0/24"):
        networks.hold("99.1", "worker", 1)
    assert networks.hold("3.1", "other", 1).subnet == made[3]
    for job in range(16):
        networks.let_go(f"{job}.1", "worker")
    assert len(guarded.networks()) == 1  # somebody else still needs it
    networks.let_go("3.1", "other")
    assert guarded.networks() == []
    calls.close()
