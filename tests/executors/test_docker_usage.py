"""What containers use, seen from here and told by the engine; and limits that change while they run. Real engines."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.core.domain.usage import Limits, Usage, cores_used
from schedulearn.executors.common.archive import read_file
from schedulearn.executors.docker.calls import Calls
from schedulearn.executors.docker.connect import Engine
from schedulearn.executors.docker.executor import DockerExecutor
from schedulearn.executors.docker.usage import ContainerUsage, find_here, usage_told
from schedulearn.executors.kernel.groups import read_limits
from support.bench import SystemClock
from support.docker import Daemons
from support.docker_bench import DockerBench

MB = 1_000_000
FOREVER = "exec sleep 1000"
BURN = "while True: pass"
HOLD = "held = b'x' * 60_000_000\nprint('held', flush=True)\nimport time; time.sleep(1000)"

Reader = Callable[[], Usage | None]


def started(bench: DockerBench, launch: Launch, said: bytes = b"") -> DockerExecutor:
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    bench.until(lambda: said in bench.output(launch), f"the worker says {said!r}")
    return executor


def stop(bench: DockerBench, executor: DockerExecutor, launch: Launch) -> None:
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


@pytest.fixture(params=["here", "elsewhere"])
def reader(request: pytest.FixtureRequest, containers: DockerBench) -> Callable[[DockerExecutor, Launch], Reader]:
    """Reads what a worker uses: by the kernel's files, or as if the engine were on another machine."""

    def make(executor: DockerExecutor, launch: Launch) -> Reader:
        if request.param == "here":
            return lambda: executor.usage(launch.worker, launch.node)
        calls = Calls(Engine(containers.daemon.address))
        told = ContainerUsage(calls, lambda _: containers.name(launch), SystemClock(), every=0.1, look_here=False)
        request.addfinalizer(told.close)
        return lambda: told.read(launch.worker)

    return make


def test_cpu_time_and_memory(containers: DockerBench, reader: Any) -> None:
    launch = containers.python(HOLD.replace("import time; time.sleep(1000)", BURN))
    executor = started(containers, launch, b"held")
    read = reader(executor, launch)
    first = containers.until(read)
    later = containers.until(lambda: (now := read()) and now.cpu_seconds > first.cpu_seconds + 0.3 and now)
    assert cores_used(first, later) > 0
    assert 60 * MB < later.memory < 150 * MB
    stop(containers, executor, launch)
    assert executor.usage(launch.worker, launch.node) is None


def test_the_network_is_its_own_only_on_a_bridge(containers: DockerBench, reader: Any) -> None:
    launch = containers.launch(FOREVER)
    executor = started(containers, launch)
    usage = containers.until(reader(executor, launch))
    known = usage.received_bytes is not None and usage.sent_bytes is not None
    assert known == bool(containers.daemon.bridge)
    stop(containers, executor, launch)


def test_limits_are_told_with_it(containers: DockerBench, reader: Any) -> None:
    launch = containers.launch(FOREVER, cpu_limit=0.75, spec={"resources": WorkerResources(memory=100 * MB)})
    executor = started(containers, launch)
    limits = containers.until(reader(executor, launch)).limits
    assert (limits.cpus, limits.weight) == (0.75, 100)
    assert abs(limits.memory - 100 * MB) < 65536
    stop(containers, executor, launch)


def test_what_is_read_here_is_what_the_engine_tells(containers: DockerBench) -> None:
    """Both ways of measuring agree on a worker that has done its work."""
    launch = containers.python("sum(range(3_000_000))\n" + HOLD)
    executor = started(containers, launch, b"held")
    here = containers.until(lambda: executor.usage(launch.worker, launch.node))
    with containers.daemon.client() as client:
        told = usage_told(client.api.stats(containers.name(launch), stream=False, one_shot=True), 1.0, Limits())
    assert told.cpu_seconds == pytest.approx(here.cpu_seconds, abs=0.5)
    assert told.memory == pytest.approx(here.memory, abs=20 * MB)
    stop(containers, executor, launch)


def test_a_pid_that_is_somebody_elses_is_not_taken_for_the_container(containers: DockerBench) -> None:
    launch = containers.launch(FOREVER)
    executor = started(containers, launch)
    told = containers.inspect(launch)
    assert find_here(told["Id"], told["State"]["Pid"])
    assert find_here("0" * 64, told["State"]["Pid"]) is None
    assert find_here(told["Id"], 1) is None
    assert find_here(told["Id"], 2**22 + 1) is None
    stop(containers, executor, launch)


def test_a_container_that_is_not_there_yet(containers: DockerBench) -> None:
    usage = ContainerUsage(Calls(Engine(containers.daemon.address)), lambda _: "nobody", SystemClock(), every=0.01)
    launch = containers.launch(FOREVER)
    for _ in range(20):
        assert usage.read(launch.worker) is None
    usage.close()


def test_nobody_waits_for_a_frozen_engine(containers: DockerBench, daemons: Daemons) -> None:
    """A question to it is under way for as long as it is frozen; the answer is what was known before, at once."""
    launch = containers.launch(FOREVER)
    executor = started(containers, launch)
    calls = Calls(Engine(containers.daemon.address), 600.0)
    told = ContainerUsage(calls, lambda _: containers.name(launch), SystemClock(), every=0.01, look_here=False)
    containers.until(lambda: told.read(launch.worker))
    containers.daemon.freeze()
    try:
        last = told.read(launch.worker)
        answers: list[Usage | None] = []
        asker = threading.Thread(target=lambda: answers.extend(told.read(launch.worker) for _ in range(1000)))
        asker.start()
        asker.join(60.0)
        assert len(answers) == 1000
        assert last is not None
        assert answers[-1] is not None
    finally:
        containers.daemon.thaw()
    newer = containers.until(lambda: (now := told.read(launch.worker)) and now.at > answers[-1].at and now)
    assert newer.cpu_seconds >= last.cpu_seconds
    told.close()
    stop(containers, executor, launch)


# --- limits that change


def limits_set(bench: DockerBench, launch: Launch, count: int = 1) -> LimitsSet:
    event: LimitsSet = bench.recorder.wait(LimitsSet, launch.worker, count)
    return event


def control(bench: DockerBench, launch: Launch) -> Any:
    with bench.daemon.client() as client:
        chunks, _ = client.api.get_archive(bench.name(launch), "/schedulearn/control.json")
        return json.loads(read_file(chunks, 1 << 16))


def in_the_kernel(bench: DockerBench, launch: Launch) -> Limits:
    told = bench.inspect(launch)
    here = find_here(told["Id"], told["State"]["Pid"])
    assert here is not None
    return read_limits(here.groups)


def test_limits_change_while_it_runs(containers: DockerBench) -> None:
    launch = containers.python(BURN, cpu_limit=1.0, spec={"resources": WorkerResources(memory=500 * MB)})
    executor = started(containers, launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.125, weight=30, memory=200 * MB))
    event = limits_set(containers, launch)
    assert (event.problem, event.limits) == ("", Limits(0.125, 30, 200 * MB))
    host = containers.inspect(launch)["HostConfig"]
    assert (host["CpuQuota"], host["CpuPeriod"], host["CpuShares"]) == (12_500, 100_000, 307)
    assert host["Memory"] == host["MemorySwap"] == 200 * MB
    kernel = in_the_kernel(containers, launch)
    assert kernel.cpus == 0.125
    assert kernel.memory is not None
    assert 0 <= 200 * MB - kernel.memory < 65536
    group = {"world_size": 1, "generation": 0, "members": [0]}
    assert control(containers, launch) == {"cpus": 0.125, "threads": 1, "memory": 200 * MB, **group}
    containers.until(lambda: (now := executor.usage(launch.worker, launch.node)) and now.limits == kernel)
    stop(containers, executor, launch)


def test_the_job_may_read_what_was_changed(containers: DockerBench) -> None:
    code = "import os, time\nfile = os.environ['SCHEDULEARN_CONTROL']\nwas = open(file).read()\nprint('read')\n"
    code += "while True:\n    try: now = open(file).read()\n    except OSError: continue\n"
    code += "    if now and now != was: print(now, flush=True); was = now\n    time.sleep(0.01)"
    launch = containers.python(code, cpu_limit=1.0)
    executor = started(containers, launch, b"read")
    executor.set_limits(launch.worker, launch.node, Limits(cpus=1.5))
    containers.until(lambda: b'"cpus": 1.5' in containers.output(launch), "the job sees its new limit")
    stop(containers, executor, launch)


def test_a_limit_outlives_the_service_and_a_second_request_changes_nothing(containers: DockerBench) -> None:
    launch = containers.launch(FOREVER, cpu_limit=1.0)
    first = started(containers, launch)
    first.set_limits(launch.worker, launch.node, Limits(cpus=1 / 3))
    limits_set(containers, launch)
    first.close()
    second = containers.executor()
    second.adopt(launch.worker, launch.node)
    containers.started(launch, count=2)
    second.set_limits(launch.worker, launch.node, Limits(cpus=1 / 3))
    second.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    assert limits_set(containers, launch, count=2).limits.cpus == 0.5
    assert in_the_kernel(containers, launch).cpus == 0.5
    stop(containers, second, launch)


def test_an_engine_elsewhere_is_asked_for_the_new_limits(containers: DockerBench) -> None:
    launch = containers.launch(FOREVER, cpu_limit=1.0)
    executor = started(containers, launch)
    calls, clock = Calls(Engine(containers.daemon.address)), SystemClock()
    told = ContainerUsage(calls, lambda _: containers.name(launch), clock, every=0.1, look_here=False)
    executor._usage = told
    assert containers.until(lambda: told.read(launch.worker)).limits.cpus == 1.0
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.75))
    assert limits_set(containers, launch).limits.cpus == 0.75
    containers.until(lambda: told.read(launch.worker).limits.cpus == 0.75, "the new limit is told")
    told.close()
    stop(containers, executor, launch)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Limits(cpus=0.5, memory=30 * MB), "below the"),
        (Limits(cpus=1e9), "invalid argument"),  # the kernel's own word
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(containers: DockerBench, asked: Limits, why: str) -> None:
    launch = containers.python(HOLD, cpu_limit=1.0, spec={"resources": WorkerResources(memory=500 * MB)})
    executor = started(containers, launch, b"held")
    containers.until(lambda: executor.usage(launch.worker, launch.node))
    before, told = in_the_kernel(containers, launch), control(containers, launch)
    executor.set_limits(launch.worker, launch.node, asked)
    event = limits_set(containers, launch)
    assert event.problem
    assert why in event.problem
    assert in_the_kernel(containers, launch) == before
    assert control(containers, launch) == told
    stop(containers, executor, launch)


def test_a_worker_that_does_not_run_is_left_alone(containers: DockerBench) -> None:
    launch = containers.launch("true")
    executor = containers.executor()
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    executor.start(launch)
    containers.ended(launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5))
    assert not any(isinstance(event, LimitsSet) for event in containers.recorder.events)


# --- what engines tell


V1 = {
    "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
    "memory_stats": {"usage": 1000, "stats": {"total_inactive_file": 300, "inactive_file": 5}},
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"op": "Read", "value": 7},
            {"op": "Write", "value": 9},
            {"op": "Sync", "value": 16},
            {"op": "Total", "value": 16},
        ]
    },
    "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
}
V2 = {
    "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
    "memory_stats": {"usage": 1000, "stats": {"inactive_file": 300}},
    "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 7}, {"op": "write", "value": 9}]},
}
SILENT = {**V2, "blkio_stats": {"io_service_bytes_recursive": None}}


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (V1, Usage(1.0, 2.5, 700, 7, 9, 11, 22)),
        (V2, Usage(1.0, 2.5, 700, 7, 9)),
        (SILENT, Usage(1.0, 2.5, 700)),
        ({"memory_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 0}}}, None),
    ],
)
def test_answers_of_engines_old_and_new(told: dict[str, Any], usage: Usage | None) -> None:
    assert usage_told(told, 1.0, Limits()) == usage


def test_there_is_no_folder_of_ours(tmp_path: Path) -> None:
    assert find_here("x", 1, tmp_path) is None
