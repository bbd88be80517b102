"""What a worker really runs under each launcher, and the placeholders of Horovod's workers."""

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec, Launcher, WorkerResources, Workers
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.archive import Entry, pack
from schedulearn.executors.common.launching import HOSTS, launched
from schedulearn.executors.common.paths import read_orders, write_json
from schedulearn.executors.kernel.groups import Cgroups, read_limits
from schedulearn.executors.process.cgroups import made_groups

HOROVOD = {"launcher": Launcher.HOROVOD, "workers": Workers(1, 2, 3)}
AGENT = "-m torch.distributed.run"


def launch_of(command: str | tuple[str, ...], launcher: Launcher, rank: int = 0, **more: Any) -> Launch:
    workers = more.pop("workers", Workers(1, 2, 3))
    spec = JobSpec("job", command, launcher=launcher, workers=workers)
    return Launch(WorkerId(JobId(1), 1, rank), NodeName("here"), spec, world_size=more.pop("size", 2), **more)


@pytest.mark.parametrize("launcher", [Launcher.COMMAND, Launcher.ELASTIC])
@pytest.mark.parametrize("command", ["torchrun train.py", ("python", "train.py")])
def test_other_commands_run_as_they_are(command: str | tuple[str, ...], launcher: Launcher) -> None:
    assert launched(launch_of(command, launcher), "/hosts") == command


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("torchrun train.py", "torchrun train.py"),
        ("/opt/bin/torchrun --nproc-per-node 2 train.py", "/opt/bin/torchrun --nproc-per-node 2 train.py"),
        ("cd here && torchrun train.py", "cd here && torchrun train.py"),
        ("python -m torch.distributed.run train.py", "python -m torch.distributed.run train.py"),
        ("python train.py --lr 0.1", f"python {AGENT} train.py --lr 0.1"),
        (" /venv/bin/python3.11 -u train.py 'a b'", f"/venv/bin/python3.11 {AGENT} train.py 'a b'"),
        ("python -m pkg.train", f"python {AGENT} -m pkg.train"),
        ("LR=0.1 SEED=2 python train.py > log", f"LR=0.1 SEED=2 python {AGENT} train.py > log"),
        ("train.py --epochs 2", "torchrun train.py --epochs 2"),
        ("python -W error train.py", "torchrun --no-python /bin/sh -c 'python -W error train.py'"),
        ("cd a; python train.py", "torchrun --no-python /bin/sh -c 'cd a; python train.py'"),
        ("./train --fast", "torchrun --no-python /bin/sh -c './train --fast'"),
        (("python", "train.py", "torchrun"), ("python", *AGENT.split(), "train.py", "torchrun")),
        (("/v/python3", "-u", "-m", "train"), ("/v/python3", *AGENT.split(), "-m", "train")),
        (("python", "-c", "pass"), ("torchrun", "--no-python", "python", "-c", "pass")),
        (("./train.py", "x"), ("torchrun", "./train.py", "x")),
        (("./train", "x"), ("torchrun", "--no-python", "./train", "x")),
        (("torchrun", "train.py"), ("torchrun", "train.py")),
        (("python", *AGENT.split(), "train.py"), ("python", *AGENT.split(), "train.py")),
    ],
)
def test_torchrun_is_put_in_front(command: str | tuple[str, ...], runs: str | tuple[str, ...]) -> None:
    assert launched(launch_of(command, Launcher.TORCHRUN), "/hosts") == runs


def test_horovod_runs_everything_in_worker_0() -> None:
    fixed = launched(launch_of("python train.py", Launcher.HOROVOD, workers=Workers(2, 2, 2)), "/a/hosts")
    begin = ("horovodrun", "--gloo", "--network-interfaces", "lo", "-np", "2")
    assert fixed == (*begin, "-H", "localhost:2", "/bin/sh", "-c", "python train.py")
    elastic = launched(launch_of(("python", "train.py"), Launcher.HOROVOD), "/a b/hosts")
    bounds = ("--min-np", "1", "--max-np", "1024", "--host-discovery-script", "sh '/a b/hosts'")
    assert elastic == (*begin, *bounds, "python", "train.py")
    assert "horovodrun" not in launched(launch_of("python train.py", Launcher.HOROVOD, rank=1), "/hosts")


@pytest.mark.parametrize("rank", [0, 1])
def test_horovods_workers_must_be_on_one_node(rank: int) -> None:
    with pytest.raises(ExecutorError, match="must be on one node"):
        launched(launch_of("python train.py", Launcher.HOROVOD, rank, together=False), "/hosts")


@pytest.mark.parametrize(
    ("control", "said"),
    [
        ({"cpus": 2.0, "world_size": 3, "generation": 4, "members": [0, 2, 5]}, "localhost:3\n"),
        ({"world_size": 12}, "localhost:12\n"),
        (None, ""),
    ],
)
def test_the_discovery_script_tells_the_present_size(tmp_path: Path, control: Any, said: str) -> None:
    file = tmp_path / "control.json"
    file.write_text(json.dumps(control) if control else "")  # in a container it may be empty for an instant
    env = {**os.environ, "SCHEDULEARN_CONTROL": str(file)}
    done = subprocess.run(["sh", "-c", HOSTS], env=env, capture_output=True, text=True)
    assert done.stdout == said
    assert (done.returncode == 0) == bool(said), "Horovod asks again after a failure"


# --- placeholders, with a stand-in for horovodrun that says what it was told and waits

STAND_IN = b"""#!/bin/sh
trap 'exit 7' TERM
echo "$@"
while [ ! -e go ]; do sleep 0.05 & wait $!; done
"""


def horovod(bench: Any, tmp_path: Path, rank: int, **more: Any) -> Launch:
    """A worker whose horovodrun comes with its code."""
    snapshot = tmp_path / "code.tar.gz"
    with tarfile.open(snapshot, "w:gz") as tar:
        info = tarfile.TarInfo("horovodrun")
        info.mode, info.size = 0o755, len(STAND_IN)
        tar.addfile(info, io.BytesIO(STAND_IN))
    spec = {**HOROVOD, "env": {"PATH": f".:{os.environ['PATH']}"}, **more.pop("spec", {})}
    launch: Launch = bench.launch("python train.py", rank=rank, spec=spec, world_size=2, snapshot=snapshot, **more)
    return launch


def members(bench: Any, launch: Launch, *ranks: int) -> None:
    """As the executor writes it when a job is resized."""
    file = bench.paths(launch).control
    write_json(file, {**json.loads(file.read_text()), "world_size": len(ranks), "members": list(ranks)})


@pytest.mark.parametrize("kind", ["processes", pytest.param("containers", marks=pytest.mark.docker)])
def test_placeholders_end_with_worker_0(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    bench = request.getfixturevalue(kind)
    first, second = (horovod(bench, tmp_path, rank) for rank in (0, 1))
    executor = bench.executor()
    for launch in (first, second):
        executor.start(launch)
        bench.started(launch)
    bench.until(lambda: b"--max-np 1024" in bench.output(first), "Horovod was started")
    bench.touch(first, "go")
    assert bench.ended(first).ok
    assert bench.ended(second).ok
    assert bench.output(second) == b""


def test_a_container_whose_worker_0_ended_while_the_service_was_away(containers: Any, tmp_path: Path) -> None:
    first, second = (horovod(containers, tmp_path, rank) for rank in (0, 1))
    executor = containers.executor()
    for launch in (first, second):
        executor.start(launch)
        containers.started(launch)
    containers.touch(first, "go")
    executor.close()
    again = containers.executor()
    again.adopt(first.worker, first.node)
    assert containers.ended(first).ok
    again.close()
    containers.executor().adopt(second.worker, second.node)  # nobody speaks of worker 0 any more
    assert containers.ended(second).ok


def test_a_placeholder_leaves_when_it_is_no_member(bench: Any, tmp_path: Path) -> None:
    staying, leaving = (horovod(bench, tmp_path, rank) for rank in (1, 11))
    executor = bench.executor()
    for launch in (staying, leaving):
        executor.start(launch)
        bench.started(launch)
        members(bench, launch, 0, 1, 11)
    for launch in (staying, leaving):
        members(bench, launch, 0, 1)
    assert bench.ended(leaving).ok
    executor.stop(staying.worker, staying.node, 30.0)
    assert bench.ended(staying).ok, "it was still there, and ends at once when it is told"


def test_a_horovod_that_is_not_installed(bench: Any) -> None:
    launch = bench.launch("python train.py", spec={**HOROVOD, "env": {"PATH": "/nonexistent"}})
    outcome = bench.run(launch)
    assert (outcome.ending, outcome.detail) == (Ending.NOT_STARTED, "command not found: horovodrun")


def test_workers_on_several_nodes_do_not_start(bench: Any, tmp_path: Path) -> None:
    outcome = bench.run(horovod(bench, tmp_path, 0, together=False))
    assert outcome.ending is Ending.NOT_STARTED
    assert "must be on one node" in outcome.detail


def test_worker_0_has_the_limits_of_all(bench: Any, tmp_path: Path, real_cgroups: Cgroups) -> None:
    resources = {"resources": WorkerResources(memory=100 << 20)}
    first = horovod(bench, tmp_path, 0, cpu_limit=0.5, spec=resources)
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(first)
    bench.started(first)
    groups = made_groups(read_orders(bench.paths(first))["groups"])
    assert read_limits(groups).cpus == 1.0
    assert read_limits(groups).memory == 200 << 20
    told = json.loads(bench.paths(first).control.read_text())
    assert (told["cpus"], told["threads"], told["memory"]) == (0.5, 1, 100 << 20), "each process has its own share"

    members(bench, first, 0, 1, 2)
    executor.set_limits(first.worker, first.node, Limits(cpus=0.25))
    bench.until(lambda: read_limits(groups).cpus == 0.75, "three times the new limit")
    bench.until(lambda: json.loads(bench.paths(first).control.read_text())["cpus"] == 0.25)
    bench.touch(first, "go")
    assert bench.ended(first).ok


def test_limits_follow_the_group_and_memory_does_not_pile_up(bench: Any, tmp_path: Path, real_cgroups: Cgroups) -> None:
    first = horovod(bench, tmp_path, 0, cpu_limit=0.5, spec={"resources": WorkerResources(memory=100 << 20)})
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(first)
    bench.started(first)
    groups = made_groups(read_orders(bench.paths(first))["groups"])
    for generation, size in enumerate((1, 2, 1, 2, 3, 1, 2), 1):
        executor.regroup(first.worker, first.node, Group(generation, tuple(range(size))))
        bench.until(lambda size=size: read_limits(groups).cpus == 0.5 * size, "as many cores as its group has")
    executor.set_limits(first.worker, first.node, Limits(cpus=0.25))
    # It writes the control file twice, before and after the groups; what is planted in between would be lost.
    bench.until(lambda: any(event.limits.cpus == 0.25 for event in bench.recorder.found(LimitsSet, first.worker)))
    assert json.loads(bench.paths(first).control.read_text())["cpus"] == 0.25
    assert read_limits(groups).memory == 300 << 20, "what the largest group had"
    assert json.loads(bench.paths(first).control.read_text())["memory"] == 100 << 20

    members(bench, first, 0, 1, 2)  # the service was killed right after it wrote this
    executor.regroup(first.worker, first.node, Group(7, (0, 1, 2)))
    bench.until(lambda: read_limits(groups).cpus == 0.75, "it is told again of a group that it knows")
    bench.touch(first, "go")
    assert bench.ended(first).ok


def test_what_a_container_makes_of_its_control_file_does_not_count(containers: Any, tmp_path: Path) -> None:
    memory = 100 << 20
    first = horovod(containers, tmp_path, 0, cpu_limit=0.25, spec={"resources": WorkerResources(memory=memory)})
    executor = containers.executor()
    executor.start(first)
    containers.started(first)
    kept = containers.paths(first).control
    forged = {"cpus": 64.0, "memory": 1 << 40, "world_size": 1000, "generation": "x", "members": "none"}
    for generation, size in enumerate((3, 1, 2), 1):
        plant(containers, first, json.dumps(forged).encode())
        executor.regroup(first.worker, first.node, Group(generation, tuple(range(size))))
        quota = 25_000 * size
        containers.until(lambda quota=quota: containers.inspect(first)["HostConfig"]["CpuQuota"] == quota, "its share")
    plant(containers, first, b"{")
    executor.set_limits(first.worker, first.node, Limits(cpus=0.5))
    containers.until(lambda: json.loads(kept.read_text())["cpus"] == 0.5)
    host = containers.inspect(first)["HostConfig"]
    assert (host["CpuQuota"], host["Memory"]) == (100_000, 3 * memory)
    told = {"cpus": 0.5, "threads": 1, "memory": memory, "world_size": 2, "generation": 3, "members": [0, 1]}
    assert json.loads(kept.read_text()) == told
    executor.stop(first.worker, first.node, 0.0)
    containers.ended(first)


def plant(containers: Any, launch: Launch, text: bytes) -> None:
    with containers.daemon.client() as client:
        entry = Entry("schedulearn/control.json", content=text, mode=0o644)
        client.api.put_archive(containers.name(launch), "/", b"".join(pack([entry], (0, 0))))
