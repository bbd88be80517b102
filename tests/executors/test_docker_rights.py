"""What a container may and may not do: each right is looked up in the real container, or tried from inside."""

import os
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import DeviceId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.executors.docker import starting
from schedulearn.executors.docker.options import container_options
from schedulearn.executors.docker.rules import Rules, identity
from support.docker_bench import DOCKER_NODE, DockerBench

MB = 1 << 20


@pytest.fixture
def waiting(containers: DockerBench) -> Any:
    """Starts a job that waits, looks at its container, and ends it."""

    def look(**more: Any) -> dict[str, Any]:
        rules = more.pop("rules", Rules())
        launch = containers.launch("exec sleep 1000", **more)
        executor = containers.executor(rules=rules)
        executor.start(launch)
        containers.started(launch)
        told = containers.inspect(launch)
        executor.stop(launch.worker, launch.node, 0)
        containers.ended(launch)
        return told

    return look


def test_what_holds_for_every_container(waiting: Any) -> None:
    told = waiting()
    host, config = told["HostConfig"], told["Config"]
    assert host["Init"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] == 4096
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert host["PidMode"] == ""
    assert host["IpcMode"] == "private"
    assert host["UsernsMode"] == ""
    assert host["OomScoreAdj"] == 500
    assert host["Ulimits"] == [{"Name": "core", "Hard": 0, "Soft": 0}]
    assert host["LogConfig"]["Type"] == "json-file"
    assert int(host["LogConfig"]["Config"]["max-size"]) == 16 * MB
    assert int(host["LogConfig"]["Config"]["max-file"]) > 1
    assert not host["Devices"]
    assert not host["DeviceRequests"]
    assert told["Mounts"] == []
    assert config["User"] == "65534:65534"
    labels = {name: value for name, value in config["Labels"].items() if name != "schedulearn.instance"}
    assert labels == {
        "schedulearn.job": "1",
        "schedulearn.attempt": "1",
        "schedulearn.rank": "0",
        "schedulearn.worker": "1.1.0",
    }
    assert len(config["Labels"]["schedulearn.instance"]) == 12


def test_limits(waiting: Any) -> None:
    resources = WorkerResources(memory=256 * MB, shm=32 * MB)
    host = waiting(cpu_limit=0.5, spec={"resources": resources})["HostConfig"]
    assert (host["CpuQuota"], host["CpuPeriod"], host["CpuShares"]) == (50_000, 100_000, 1024)
    assert (host["Memory"], host["MemorySwap"], host["ShmSize"]) == (256 * MB, 256 * MB, 32 * MB)


def test_the_uid_that_the_administrator_gave(containers: DockerBench) -> None:
    launch = containers.launch("id -u; id -g; id -G; touch file; stat -c %u:%g file", uid=4242, gid=4343)
    assert containers.run(launch).ok
    assert containers.output(launch).split() == [b"4242", b"4343", b"4343", b"4242:4343"]
    if os.geteuid() == 0:
        there = (containers.paths(launch).job.run / "file").stat()
        assert (there.st_uid, there.st_gid) == (4242, 4343)


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (0, 5), (5, 0)])
def test_never_root(containers: DockerBench, uid: int, gid: int) -> None:
    launch = containers.launch("id", uid=uid, gid=gid)
    outcome = containers.run(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "never run as root" in outcome.detail
    assert containers.containers() == []


INSIDE = """
import os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print("capabilities", *(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))
print("no new privileges", status["NoNewPrivs"])
print("init", open("/proc/1/comm").read().strip())
print("sockets", [p for p in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(p)])
for path in ("/etc/passwd", "/schedulearn-anything", "/usr/bin/sh"):
    try:
        open(path, "a")
        print("could write", path)
    except OSError:
        pass
print("token", open(os.environ["SCHEDULEARN_TOKEN_FILE"]).read(), oct(os.stat("/schedulearn/token").st_mode & 0o777))
print("gpus", os.environ["NVIDIA_VISIBLE_DEVICES"], repr(os.environ["CUDA_VISIBLE_DEVICES"]))
"""


def test_as_seen_from_inside(containers: DockerBench) -> None:
    launch = containers.python(INSIDE, token="secret")
    assert containers.run(launch).ok, containers.output(launch)
    lines = containers.output(launch).decode().splitlines()
    assert lines == [
        "capabilities 0 0 0 0 0",
        "no new privileges 1",
        "init docker-init",
        "sockets []",
        "token secret 0o600",
        "gpus void ''",
    ]


def test_a_runaway_fork_is_held(containers: DockerBench) -> None:
    code = "import os, time\nn = 0\ntry:\n  while n < 60:\n    n += 1\n    if not os.fork(): time.sleep(100)\n"
    launch = containers.python(code + "except OSError: print('no more', flush=True)")
    assert containers.run(launch, rules=Rules(processes=40)).ok
    assert containers.output(launch) == b"no more\n"


# --- what is asked of the engine: there is no GPU here, and no second server


def options(launch: Launch, network: str = "bridge", rules: Rules | None = None) -> dict[str, Any]:
    return container_options(launch, rules or Rules(), "sha256:1", "abc", network, [])


def test_gpus_are_asked_for_by_uuid(containers: DockerBench) -> None:
    launch = containers.launch("true", devices=(DeviceId("GPU-1"), DeviceId("GPU-2")))
    asked = options(launch)
    (request,) = asked["host_config"]["device_requests"]
    assert request["Driver"] == "nvidia"
    assert request["DeviceIDs"] == ["GPU-1", "GPU-2"]
    assert request["Capabilities"] == [["gpu"]]
    assert request["Count"] == 0
    env = asked["environment"]
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"


def test_a_job_cannot_give_itself_gpus(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"env": {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0"}})
    asked = options(launch)
    assert "device_requests" not in asked["host_config"]
    assert asked["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert asked["environment"]["CUDA_VISIBLE_DEVICES"] == ""


def test_the_service_is_found_from_the_bridge(containers: DockerBench) -> None:
    launch = containers.launch("true", url="http://127.0.0.1:7311")
    assert options(launch)["environment"]["SCHEDULEARN_URL"] == "http://host.docker.internal:7311"
    assert options(launch)["host_config"]["extra_hosts"] == {"host.docker.internal": "host-gateway"}
    assert options(launch, "host")["environment"]["SCHEDULEARN_URL"] == "http://127.0.0.1:7311"
    assert options(replace(launch, url="http://lab:1"))["environment"]["SCHEDULEARN_URL"] == "http://lab:1"


# --- who it runs as


def test_nobody_is_root_by_default() -> None:
    assert Rules().uid > 0
    with pytest.raises(ExecutorError):
        identity(Launch(None, None, None), Rules(uid=0))  # type: ignore[arg-type]


def test_a_uid_that_the_image_does_not_know(containers: DockerBench) -> None:
    """Python asks for the name and home of whoever runs it; both have to be there without an entry in /etc/passwd."""
    code = (
        "import getpass, os; print(getpass.getuser(), os.path.expanduser('~'), os.access(os.path.expanduser('~'), 2))"
    )
    launch = containers.python(code, uid=1_200_007, gid=1_200_007)
    assert containers.run(launch).ok, containers.output(launch)
    assert containers.output(launch) == b"1200007 /tmp True\n"


def test_users_do_not_read_each_others_files(containers: DockerBench, tmp_path: Any) -> None:
    """On a folder that all may mount and write to, each user's files are its own."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o1777)
    rules, spec = Rules(mounts=(f"{tmp_path}/scratch:rw",)), {"mounts": (f"{tmp_path}/scratch:/s:rw",)}
    first = containers.launch("umask 077; echo mine > /s/file; ls -n /s", uid=1_200_001, gid=1_200_001, spec=spec)
    assert containers.run(first, rules=rules).ok
    other = containers.launch("cat /s/file; rm -f /s/file", job=2, uid=1_200_002, gid=1_200_002, spec=spec)
    assert not containers.run(other, rules=rules).ok
    assert b"mine" not in containers.output(other)
    assert (tmp_path / "scratch" / "file").stat().st_uid == 1_200_001


# --- names that lead elsewhere, and faults


@pytest.mark.parametrize("image", ["../containers", "a/../../containers", "a?x=1", "", "A", "a b"])
def test_an_image_that_is_none(containers: DockerBench, image: str) -> None:
    """Also where nobody checked it before: a node's default image, or a job of an earlier version."""
    node = replace(DOCKER_NODE, default_image=image)
    outcome = containers.run(containers.launch("true"), node=node)
    assert outcome.ending is Ending.NOT_STARTED
    assert "is not the name of an image" in outcome.detail or "no default image" in outcome.detail


def test_a_fault_at_the_start_does_not_leave_a_job_that_starts_for_ever(
    containers: DockerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("list indices must be integers")

    monkeypatch.setattr(starting, "_image", broken)
    outcome = containers.run(containers.launch("true"))
    assert outcome.ending is Ending.NOT_STARTED
    assert "a fault of the service" in outcome.detail
    assert containers.containers() == []
