"""What the machine has. GPUs are played by a small library that stands in for the driver's."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.resources import Resources
from schedulearn.executors.kernel.machine import discover_node, gpu_devices
from support.nvml import ask_with_nvml, build_nvml

ASK = """
import dataclasses, json, sys
from schedulearn.executors.kernel.machine import discover_node, gpu_devices
devices = gpu_devices({int(pid) for pid in sys.argv[1:]})
print(json.dumps([[dataclasses.asdict(d) for d in devices], discover_node("n").capacity["gpus"]]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def ask(library: Path, *own_pids: int, **settings: object) -> list[dict[str, Any]]:
    devices, count = ask_with_nvml(library, ASK, *map(str, own_pids), **settings)
    assert count == len(devices)
    return list(devices)


def test_cores_and_memory() -> None:
    node = discover_node("here")
    assert node.name == "here"
    assert node.capacity["cpus"] == len(os.sched_getaffinity(0))
    assert node.capacity["memory"] == psutil.virtual_memory().total
    assert node.executor == "process"


def test_without_a_driver_there_are_no_gpus(library: Path) -> None:
    assert ask(library, FAKE_NO_DRIVER=1) == []


def test_idle_gpus(library: Path) -> None:
    expected = {"kind": "gpus", "model": "Fake A100", "memory": 80_000_000_000, "outside_use": ""}
    assert ask(library) == [{"id": "GPU-0", **expected}, {"id": "GPU-1", **expected}]


def test_what_a_driver_keeps_for_itself_is_no_use(library: Path) -> None:
    assert [d["outside_use"] for d in ask(library, FAKE_USED=600_000_000, FAKE_BUSY=3)] == ["", ""]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"FAKE_PID": 4711}, ["", "process 4711 holds 3 GB"]),
        ({"FAKE_USED": 5_000_000_000}, ["an unknown process holds 5 GB", ""]),
        ({"FAKE_BUSY": 87}, ["an unknown process keeps it 87 % busy", ""]),
    ],
)
def test_a_gpu_that_others_use(library: Path, settings: dict[str, int], said: list[str]) -> None:
    assert [d["outside_use"] for d in ask(library, **settings)] == said


def test_our_own_processes_are_no_outside_use(library: Path) -> None:
    assert [d["outside_use"] for d in ask(library, 4711, FAKE_PID=4711)] == ["", ""]


def test_a_gpu_that_does_not_answer_is_left_out(library: Path) -> None:
    assert [d["id"] for d in ask(library, FAKE_BROKEN=1)] == ["GPU-1"]


def test_the_executor_tells_its_own_processes_from_others(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[int]] = []

    def look(own: set[int]) -> tuple[Device, ...]:
        asked.append(own)
        return node.devices

    node = Node(discover_node("here").name, capacity=Resources(gpus=1), devices=(Device("GPU-0"),))  # type: ignore[arg-type]
    monkeypatch.setattr("schedulearn.executors.process.executor.gpu_devices", look)
    launch = bench.launch("sleep 1000 & echo $! > child; wait")
    executor = bench.executor(node=node)
    executor.start(launch)
    child = bench.pid_in(launch, "child")
    bench.started(launch)
    bench.until(lambda: executor.nodes() == [node] and child in asked[-1])
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    executor.nodes()
    assert asked[-1] == set()


def test_gpu_devices_in_this_very_process() -> None:
    assert isinstance(gpu_devices(), tuple)
