"""What a container may and may not do: each right is looked up in the real container, or tried from inside."""

import os
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.ids import DeviceId
from schedulearn.domain.outcome import Ending
from schedulearn.domain.ports import Launch
from schedulearn.domain.spec import WorkerResources, Workers
from schedulearn.executors.docker.options import container_options, network_for
from schedulearn.executors.docker.rules import Bind, Rules, binds, identity, parse_mount
from support.docker_bench import DockerBench

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
    assert host["IpcMode"] in ("private", "")
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


@pytest.mark.parametrize(
    ("workers", "rules", "usual", "network"),
    [
        (Workers(1, 1, 1), Rules(), "bridge", "bridge"),
        (Workers(1, 1, 1), Rules(), "host", "host"),
        (Workers(1, 1, 1), Rules(network="none"), "bridge", "none"),
        (Workers(1, 2, 4), Rules(), "bridge", "host"),
    ],
)
def test_networks(containers: DockerBench, workers: Workers, rules: Rules, usual: str, network: str) -> None:
    launch = containers.launch("true", spec={"workers": workers})
    assert network_for(launch, rules, usual) == network


def test_the_service_is_found_from_the_bridge(containers: DockerBench) -> None:
    launch = containers.launch("true", url="http://127.0.0.1:7311")
    assert options(launch)["environment"]["SCHEDULEARN_URL"] == "http://host.docker.internal:7311"
    assert options(launch)["host_config"]["extra_hosts"] == {"host.docker.internal": "host-gateway"}
    assert options(launch, "host")["environment"]["SCHEDULEARN_URL"] == "http://127.0.0.1:7311"
    assert options(replace(launch, url="http://lab:1"))["environment"]["SCHEDULEARN_URL"] == "http://lab:1"


# --- mounts


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("/data", Bind("/data", "/data")),
        ("/data:ro", Bind("/data", "/data")),
        ("/data:/inside", Bind("/data", "/inside")),
        ("/data:/inside:rw", Bind("/data", "/inside", read_only=False)),
        ("/data:rw", Bind("/data", "/data", read_only=False)),
    ],
)
def test_mounts_are_understood(text: str, bind: Bind) -> None:
    assert parse_mount(text) == bind


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ("/etc", "not below a path"),
        ("/dataset", "not below a path"),
        ("/", "not below a path"),
        ("/data/../etc", "absolute paths"),
        ("//data", "absolute paths"),
        ("data", "absolute paths"),
        ("", "absolute paths"),
        ("/data:/x:/y", "absolute paths"),
        ("/data:/x:rw", "may only be read"),
        ("/data:/work/in", "hide"),
        ("/data:/", "hide"),
        ("/data:/checkpoint", "hide"),
        ("/var/run", "socket"),
        ("/var/run/docker.sock", "socket"),
    ],
)
def test_mounts_that_are_refused(containers: DockerBench, mount: str, why: str) -> None:
    launch = containers.launch("true", spec={"mounts": (mount,)})
    with pytest.raises(ExecutorError, match=why):
        binds(launch, Rules(mounts=("/data", "/scratch:rw", "/var")))


def test_a_mount_that_is_allowed(containers: DockerBench, tmp_path: Any) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "set").mkdir(mode=0o777)
    (tmp_path / "set").chmod(0o777)
    (tmp_path / "set" / "x").write_text("data")
    rules = Rules(mounts=(f"{tmp_path}:rw",))
    spec = {"mounts": (f"{tmp_path}/set:/a", f"{tmp_path}/set:/b:rw")}
    launch = containers.launch("cat /a/x; touch /b/new && touch /a/not", spec=spec)
    outcome = containers.run(launch, rules=rules)
    assert outcome.exit_code == 1
    assert containers.output(launch).startswith(b"data")
    assert b"Read-only" in containers.output(launch)
    assert sorted(p.name for p in (tmp_path / "set").iterdir()) == ["new", "x"]


def test_a_mount_that_is_not_allowed_starts_nothing(containers: DockerBench) -> None:
    outcome = containers.run(containers.launch("true", spec={"mounts": ("/etc",)}))
    assert outcome.ending is Ending.NOT_STARTED
    assert "not below a path that the administrator allows" in outcome.detail
    assert containers.containers() == []


def test_nobody_is_root_by_default() -> None:
    assert Rules().uid > 0
    with pytest.raises(ExecutorError):
        identity(Launch(None, None, None), Rules(uid=0))  # type: ignore[arg-type]
