"""The service or an engine dies at any moment: every worker runs once, ends once, and nothing is left or touched."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import WorkerExited
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.outcome import Ending
from schedulearn.executors.common.folders import make_worker_folder
from schedulearn.executors.common.instance import instance_of
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.docker import executor as executor_module
from schedulearn.executors.docker.names import worker_labels
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from schedulearn.executors.kernel.procfs import all_pids, descendants
from support.base_image import IMAGE
from support.docker import Daemon, Daemons
from support.docker_bench import DockerBench
from support.docker_life import MOMENTS, live_and_die

COUNT = "for i in $(seq 1 60); do echo $i; sleep 0.05; done; echo x > /checkpoint/done"
COUNTED = b"".join(b"%d\n" % i for i in range(1, 61))

SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit({code})
signal.signal(15, save)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder of the host in which each run leaves a mark, whatever becomes of its container."""
    folder = tmp_path / "marks"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in list(folder.parents)[:3]:
        parent.chmod(0o755)
    return folder


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", list(MOMENTS))
def test_the_service_is_killed(containers: DockerBench, marks: Path, moment: str, after: bool) -> None:
    command = "echo begin; echo run >> /marks/ran; echo x > /checkpoint/saved; echo y > made; echo end"
    launch = containers.launch(command, spec={"mounts": (f"{marks}:/marks:rw",)})
    live_and_die(containers.root, containers.daemon.address, launch, f"{marks}:rw", moment, after)
    assert containers.run(launch, rules=Rules(mounts=(f"{marks}:rw",))).ok
    assert (marks / "ran").read_text() == "run\n"
    assert containers.output(launch) == b"begin\nend\n"
    job = containers.paths(launch).job
    assert (job.checkpoint / "saved").read_text() == "x\n"
    assert (job.run / "made").read_text() == "y\n"
    containers.until(lambda: containers.containers() == [], "its container is removed")
    assert sum(isinstance(event, WorkerExited) for event in containers.recorder.events) == 1


def test_a_container_that_was_started_and_removed_from_outside_is_not_started_again(
    containers: DockerBench, marks: Path
) -> None:
    """Neither if the service was killed in the very moment after the start."""
    launch = containers.launch("echo run >> /marks/ran; exec sleep 1000", spec={"mounts": (f"{marks}:/marks:rw",)})
    live_and_die(containers.root, containers.daemon.address, launch, f"{marks}:rw", "start", after=True)
    containers.until(lambda: (marks / "ran").exists(), "it runs")
    with containers.daemon.client() as client:
        client.api.remove_container(containers.name(launch), force=True)
    outcome = containers.run(launch, rules=Rules(mounts=(f"{marks}:rw",)))
    assert (outcome.ending, outcome.detail) == (Ending.LOST, "its container was removed")
    assert (marks / "ran").read_text() == "run\n"


def test_a_life_that_is_killed_while_it_stops(containers: DockerBench) -> None:
    launch = containers.python(SAVES.format(code=0))
    first = containers.executor()
    first.start(launch)
    containers.until(lambda: b"ready" in containers.output(launch))
    first.stop(launch.worker, launch.node, 30)
    first.close()
    second = containers.executor()
    second.adopt(launch.worker, launch.node)
    second.stop(launch.worker, launch.node, 30)
    assert containers.ended(launch).ok
    assert containers.output(launch) == b"ready\nsaved\n"


# --- what is left behind, and what is others'


def foreign(daemon: Daemon, name: str, labels: dict[str, str]) -> str:
    with daemon.client() as client:
        made = client.api.create_container(IMAGE, entrypoint=["sleep", "1000"], name=name, labels=labels)
        client.api.start(made["Id"])
        return str(made["Id"])


def names(daemon: Daemon) -> set[str]:
    with daemon.client() as client:
        return {container["Names"][0][1:] for container in client.api.containers(all=True)}


def test_orphans_are_removed_and_others_are_not(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, instance = containers.daemon, instance_of(containers.root)
    assert containers.run(containers.launch("true", job=3, attempt=5)).ok
    foreign(daemon, "somebody-else", {})
    foreign(daemon, "another-service", worker_labels("0123456789ab", WorkerId(JobId(3), 1, 0)))
    foreign(daemon, "ours-but-no-worker", {"schedulearn.instance": instance})
    stale = WorkerId(JobId(3), 4, 0)
    make_worker_folder(WorkerPaths.of(containers.root, stale))
    foreign(daemon, "stale", worker_labels(instance, stale))
    foreign(daemon, "ended", worker_labels(instance, WorkerId(JobId(3), 5, 0)))
    foreign(daemon, "forgotten", worker_labels(instance, WorkerId(JobId(77), 1, 0)))
    foreign(daemon, "setup", {"schedulearn.instance": instance, "schedulearn.setup": "key"})
    monkeypatch.setattr(Rounds, "EVERY", 0.2)
    containers.executor()
    kept = {"somebody-else", "another-service", "ours-but-no-worker"}
    containers.until(lambda: names(daemon) == kept)
    time.sleep(0.5)  # two more rounds
    assert names(daemon) == kept
    with daemon.client() as client:
        client.api.remove_container("ours-but-no-worker", force=True)


def test_a_worker_that_nobody_asks_for(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service gave it up, or was restored from an old backup: it would run for ever."""
    launch = containers.launch("exec sleep 1000")
    first = containers.executor()
    first.start(launch)
    containers.started(launch)
    first.close()
    monkeypatch.setattr(Rounds, "EVERY", 0.2)
    monkeypatch.setattr(executor_module, "ORPHAN_AFTER", 0.5)
    second = containers.executor()
    time.sleep(1.5)
    assert containers.containers() != []  # a service that has said nothing yet may still be waiting for its database
    second.adopt(WorkerId(JobId(9), 1, 0), launch.node)
    containers.until(lambda: containers.containers() == [])


def test_a_stale_attempt_is_killed_when_its_server_is_back(
    containers: DockerBench, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounds, "EVERY", 0.2)
    old, new = containers.launch("exec sleep 1000"), containers.launch("true", attempt=2)
    executor = containers.executor()
    executor.start(old)
    containers.started(old)
    containers.daemon.freeze()
    try:
        assert containers.run(new, daemon=daemons(1)).ok
    finally:
        containers.daemon.thaw()
    assert not containers.ended(old).ok
    containers.until(lambda: containers.containers() == [])


# --- engines that go away


@pytest.fixture
def counting(containers: DockerBench) -> Any:
    """A worker that prints sixty lines in three seconds or more; it is waited for at the end."""
    launch = containers.launch(COUNT)
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: b"5\n" in containers.output(launch))
    yield executor, launch
    assert containers.ended(launch).ok
    assert (containers.paths(launch).job.checkpoint / "done").exists()


def test_an_engine_that_is_frozen_for_a_while(counting: Any, containers: DockerBench) -> None:
    containers.daemon.freeze()
    time.sleep(1)
    containers.daemon.thaw()
    _all_is_told(counting, containers)


def test_an_engine_that_is_frozen_until_the_end(counting: Any, containers: DockerBench) -> None:
    containers.daemon.freeze()
    time.sleep(5)
    containers.daemon.thaw()
    _all_is_told(counting, containers)


def test_an_engine_that_is_restarted(counting: Any, containers: DockerBench) -> None:
    containers.daemon.stop()
    containers.daemon.start()
    _all_is_told(counting, containers)


def test_an_engine_that_is_killed(counting: Any, containers: DockerBench) -> None:
    containers.daemon.kill()
    containers.daemon.start()
    _all_is_told(counting, containers)


def test_an_engine_that_comes_back_after_the_end(counting: Any, containers: DockerBench) -> None:
    """What was printed while nobody could read it is gone; how the job ended is not."""
    _, launch = counting
    containers.daemon.stop()
    containers.until(lambda: not _shims(containers.daemon), "the container ends without its engine")
    containers.daemon.start()
    assert containers.ended(launch).ok
    assert COUNTED.startswith(containers.output(launch))


def _shims(daemon: Daemon) -> list[int]:
    """Containers that run."""
    mark = f"{daemon.folder}/".encode()
    found = []
    for pid in all_pids():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"containerd-shim" in words and mark in words and descendants(pid):
                found.append(pid)
    return found


def _all_is_told(counting: Any, containers: DockerBench) -> None:
    _, launch = counting
    assert containers.ended(launch).ok
    assert containers.output(launch) == COUNTED


def test_engine_and_service_are_both_away(counting: Any, containers: DockerBench) -> None:
    executor, launch = counting
    containers.daemon.stop()
    executor.close()
    second = containers.executor()
    second.adopt(launch.worker, launch.node)
    containers.daemon.start()
    _all_is_told(counting, containers)


def test_what_is_asked_of_an_engine_that_is_away(containers: DockerBench) -> None:
    """It is done when the engine is back: start, pause, stop, forget."""
    first, second = containers.launch("exec sleep 1000"), containers.launch("echo hi", job=2)
    executor = containers.executor()
    executor.start(first)
    containers.started(first)
    containers.daemon.stop()
    executor.stop(first.worker, first.node, 0)
    executor.start(second)
    executor.forget(JobId(99))
    time.sleep(1)
    assert not [event for event in containers.recorder.events if isinstance(event, WorkerExited)]
    containers.daemon.start()
    assert containers.ended(first).signal == 9
    assert containers.ended(second).ok


def test_a_frozen_engine_delays_no_other(containers: DockerBench, daemons: Daemons) -> None:
    other = daemons(1)
    slow, quick = containers.executor(), containers.executor(daemon=other)
    containers.daemon.freeze()
    try:
        held = containers.launch("true", job=1)
        slow.start(held)
        assert slow.nodes()
        launch = containers.launch("true", job=2)
        quick.start(launch)
        assert containers.ended(launch).ok
    finally:
        containers.daemon.thaw()
    assert containers.ended(held).ok


def test_an_engine_that_takes_its_containers_with_it(containers: DockerBench, daemons: Daemons) -> None:
    """Without live restore a stop of the engine is a stop of the job, even if that ends with 0: it must run again."""
    daemon = daemons(2)
    daemon.stop()
    daemon.live_restore = False
    daemon.start()
    launch = containers.python(SAVES.format(code=0))
    try:
        containers.executor(daemon=daemon).start(launch)
        containers.until(lambda: b"ready" in containers.output(launch))
        daemon.stop()
        time.sleep(1)
        daemon.start()
        outcome = containers.ended(launch)
        assert outcome.ending is Ending.LOST
        assert not outcome.counts_as_failure
    finally:
        daemon.stop()
        daemon.live_restore = True
        daemon.start()


def test_the_disk_of_a_server_is_full(containers: DockerBench, daemons: Daemons) -> None:
    """What cannot be started says why; what runs fails by itself; once there is room, all is well again."""
    daemon = daemons(3, disk=300 << 20)
    executor = containers.executor(daemon=daemon)
    greedy = containers.launch("echo ready; dd if=/dev/zero of=big bs=1M; echo full; rm big; exit 7")
    executor.start(greedy)
    assert containers.ended(greedy).exit_code == 7
    assert b"No space left on device" in containers.output(greedy)
    filler = daemon.folder / "data" / "filler"
    with suppress(OSError), open(filler, "wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    refused = containers.launch("true", job=2)
    executor.start(refused)
    outcome = containers.ended(refused)
    assert outcome.ending is Ending.NODE_FAULT, "it is not the job's"
    assert "no space left" in outcome.detail
    filler.unlink()
    again = containers.launch("true", job=2, attempt=2)
    executor.start(again)
    assert containers.ended(again).ok
    assert containers.containers(daemon) == []
