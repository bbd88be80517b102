"""A service with real engines as its servers: added, drained, removed, frozen, lost and back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import ApiError, Client
from support.base_image import IMAGE
from support.service import Service
from support.waiting import wait_until

PATIENCE = 120.0  # only matters when something is broken
TICK = "i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.2; done"


class Lab:
    """A service without a machine of its own to run on (its own node is drained), and up to two servers."""

    def __init__(self, data: Path, daemons: Any, *options: str) -> None:
        self.servers = {number: daemons(number) for number in (1, 2)}
        self.service = Service(data, *options)

    def __enter__(self) -> "Lab":
        self.service.start()
        self.client = self.service.client()
        wait_until(self.client.nodes, PATIENCE, "the machine itself is a node")
        self.client.drain("local")
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.service.clean_up()
        for server in self.servers.values():
            server.thaw()
            server.clean()

    def add(self, number: int, name: str, **more: Any) -> Any:
        return self.client.add_node(self.servers[number].address, name, IMAGE, **more)

    def node(self, name: str) -> Any:
        return next((node for node in self.client.nodes() if node["name"] == name), None)

    def run(self, command: str = TICK, **more: Any) -> int:
        job = self.client.submit({"command": command, "workdir": None, "resources": {"cpus": 0.5}, **more})["id"]
        self.until(job, "running")
        return int(job)

    def until(self, job: int, state: str, attempt: int = 1) -> Any:
        def reached() -> Any:
            found = self.client.job(job)
            return found if (found["state"], found["attempt"]) == (state, attempt) else None

        return wait_until(reached, PATIENCE, f"attempt {attempt} of job {job} is {state}")

    def until_state(self, name: str, state: str | None) -> Any:
        def reached() -> bool:
            node = self.node(name)
            return (node["state"] if node else None) == state

        wait_until(reached, PATIENCE, f"node {name} is {state}")
        return self.node(name)

    def where(self, job: int) -> list[str]:
        return [place["node"] for place in self.client.job(job)["placement"]]

    def containers(self, number: int) -> list[str]:
        with self.servers[number].client() as client:
            return [c["Labels"].get("schedulearn.worker", "") for c in client.api.containers(all=True)]

    def ticks(self, job: int) -> int:
        lines = b"".join(self.client.logs(job)).splitlines()
        return int(lines[-1].split()[-1]) if lines else 0


@pytest.fixture
def lab(tmp_path: Path, daemons: Any) -> Iterator[Lab]:
    """Nobody is given up, however slow a server is."""
    with Lab(tmp_path / "data", daemons, "--lost-after", "1h") as lab:
        yield lab


def test_servers_are_added_used_labelled_drained_and_removed(lab: Lab) -> None:
    added = lab.add(1, "one", labels={"room": "b12"})
    assert (added["name"], added["state"], added["labels"]) == ("one", "up", {"room": "b12"})
    assert any("bridge" in note for note in added["notes"])
    with pytest.raises(ApiError) as twice:
        lab.add(1, "again")
    assert twice.value.field == "address"
    assert "node one" in str(twice.value)
    with pytest.raises(ApiError) as missing:
        lab.client.add_node(lab.servers[2].address, "two", "no/such:image")
    assert missing.value.field == "image"
    job = lab.run()
    assert lab.where(job) == ["one"]
    assert lab.node("one")["leased"]["cpus"] == 0.5
    with pytest.raises(ApiError) as busy:
        lab.client.remove_node("one")
    assert busy.value.status == 409
    assert lab.client.label_node("one", {"room": None, "gpu-type": "A100"})["labels"] == {"gpu-type": "A100"}
    lab.client.drain("one")
    lab.add(2, "two")
    assert lab.where(lab.run()) == ["two"]
    lab.client.remove_node("one", force=True)
    moved = lab.until(job, "running", attempt=2)
    assert [place["node"] for place in moved["placement"]] == ["two"]
    lab.until_state("one", None)
    assert moved["restarts"] == 0
    assert lab.containers(1) == [], "nothing of ours is left behind"


def test_a_frozen_server_that_is_back_in_time_has_lost_nothing(lab: Lab) -> None:
    lab.add(1, "one")
    job = lab.run()
    lab.servers[1].freeze()
    lost = lab.until_state("one", "lost")
    assert "does not answer" in lost["problem"]
    assert lost["lost_at"]
    lab.service.restart()  # a restart meanwhile changes nothing
    assert lab.until_state("one", "lost")["jobs"] == [job]
    seen = lab.ticks(job)
    lab.servers[1].thaw()
    lab.until_state("one", "up")
    wait_until(lambda: lab.ticks(job) > seen, PATIENCE, "its output goes on")
    assert lab.client.job(job)["attempt"] == 1
    lines = b"".join(lab.client.logs(job)).splitlines()
    assert lines == [b"tick %d" % (n + 1) for n in range(len(lines))], "no line is lost or told twice"


def test_the_jobs_of_a_lost_server_go_on_elsewhere_and_its_own_end_when_it_is_back(
    tmp_path: Path, daemons: Any
) -> None:
    with Lab(tmp_path / "data", daemons, "--lost-after", "3s") as lab:
        lab.add(1, "one")
        job = lab.run()
        lab.add(2, "two")
        lab.servers[1].freeze()
        second = lab.until(job, "running", attempt=2)
        assert [place["node"] for place in second["placement"]] == ["two"]
        assert second["restarts"] == 0, "it was not the job's fault"
        lab.servers[1].thaw()
        lab.until_state("one", "up")
        wait_until(lambda: lab.containers(1) == [], PATIENCE, "the stale container is gone")
        assert lab.client.job(job)["attempt"] == 2
        assert lab.containers(2) == [f"{job}.2.0"]


def test_a_dead_server_delays_no_other(lab: Lab) -> None:
    lab.add(1, "one")
    lab.add(2, "two")
    lab.servers[1].freeze()
    lab.until_state("one", "lost")
    job = lab.client.submit({"command": "echo done", "workdir": None, "resources": {"cpus": 0.5}})["id"]
    assert lab.client.wait(job, timeout=PATIENCE)["state"] == "succeeded"
    assert [n["name"] for n in lab.client.nodes()] == ["local", "one", "two"]
    lab.client.remove_node("one", force=True)
    lab.until_state("one", None)


# --- the machine of the service itself


def own_engine(monkeypatch: pytest.MonkeyPatch, daemons: Any) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemons(1).address)


def test_the_machine_itself_in_containers_and_back_to_processes(
    tmp_path: Path, daemons: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_engine(monkeypatch, daemons)
    data = tmp_path / "data"
    service = Service(data, "--executor", "docker", "--image", IMAGE)
    try:
        with service.start().client() as client:
            [node] = wait_until(client.nodes, PATIENCE)
            assert (node["name"], node["executor"], node["default_image"]) == ("local-docker", "docker", IMAGE)
            waits = "while [ ! -e go ]; do sleep 0.05; done"
            job = client.submit({"command": waits, "workdir": None, "resources": {"cpus": 0.5}})["id"]
            wait_until(lambda: client.job(job)["state"] == "running", PATIENCE)
        service.stop()
        service = Service(data).start()
        with service.client() as client:
            names = wait_until(lambda: len(found := client.nodes()) == 2 and found, PATIENCE)
            assert {n["name"]: n["state"] for n in names} == {"local": "up", "local-docker": "draining"}
            with client.exec(job, ["touch", "go"]) as told:
                assert list(told) == []
            assert client.wait(job, timeout=PATIENCE)["state"] == "succeeded", "it went on through all this"
        service.restart()
        with service.client() as client:
            wait_until(lambda: [n["name"] for n in client.nodes()] == ["local"], PATIENCE, "nothing was left to do")
    finally:
        service.clean_up()
        daemons.clean()


def test_both_share_the_machine(tmp_path: Path, daemons: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own_engine(monkeypatch, daemons)
    with Service(tmp_path / "data", "--executor", "both", "--image", IMAGE) as service, service.client() as client:
        nodes = wait_until(lambda: len(found := client.nodes()) == 2 and found, PATIENCE)
        assert [n["executor"] for n in nodes] == ["process", "docker"]
        cores = nodes[0]["capacity"]["cpus"]
        assert sum(n["free"]["cpus"] for n in nodes) == cores
        jobs = [_submit(client, image=image) for image in (IMAGE, None)]
        for job in jobs:
            assert client.wait(job, timeout=PATIENCE)["state"] == "succeeded"
        where = {event["node"] for event in client.job_events(jobs[0]) if event["kind"] == "worker_started"}
        assert where == {"local-docker"}


def _submit(client: Client, **more: Any) -> int:
    return int(client.submit({"command": "echo done", "workdir": None, "resources": {"cpus": 0.5}, **more})["id"])


def test_without_an_engine_the_service_says_so_and_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    service = Service(tmp_path / "data", "--executor", "docker")
    with pytest.raises(AssertionError, match="did not start"):
        service.start()
    assert "--executor docker does not work: there is no socket" in service.output()
