"""What this machine has: cores and memory from the system, GPUs from NVML where its library is installed."""

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from schedulearn.core.domain.ids import DeviceId, NodeName
from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY, Resources
from schedulearn.core.domain.units import format_size

log = logging.getLogger(__name__)
BUSY_PERCENT = 10  # utilisation from which an unexplained GPU counts as used
HELD_MEMORY = 1 << 30  # bytes; drivers keep some hundred megabytes for themselves


def discover_node(name: str) -> Node:
    """This machine as a node. GPUs that others use now are marked so."""
    import psutil  # only needed here

    devices = gpu_devices()
    capacity = Resources(
        {
            CPUS: len(os.sched_getaffinity(0)),  # not all cores: the service itself may be confined to some
            MEMORY: psutil.virtual_memory().total,
            GPUS: len(devices),
        }
    )
    return Node(NodeName(name), capacity=capacity, devices=devices)


@contextmanager
def _nvml() -> Iterator[Any]:
    """NVIDIA's library; None without a driver, and so without GPUs."""
    import pynvml  # only needed here

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def gpu_devices(own_pids: Collection[int] = ()) -> tuple[Device, ...]:
    """The GPUs, with who uses them besides our own workers' processes."""
    with _nvml() as nvml:
        found = [_device(nvml, index, own_pids) for index in range(nvml.nvmlDeviceGetCount())] if nvml else []
    return tuple(device for device in found if device is not None)


def gpu_minors() -> dict[DeviceId, int]:
    """Which number each GPU has in the name of its device file; those that do not tell are left out."""
    found: dict[DeviceId, int] = {}
    with _nvml() as nvml:
        if nvml is None:
            return found
        with suppress(nvml.NVMLError):
            for index in range(nvml.nvmlDeviceGetCount()):
                with suppress(nvml.NVMLError):
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    found[DeviceId(_text(nvml.nvmlDeviceGetUUID(handle)))] = int(nvml.nvmlDeviceGetMinorNumber(handle))
    return found


def _device(nvml: Any, index: int, own_pids: Collection[int]) -> Device | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return Device(
            id=DeviceId(_text(nvml.nvmlDeviceGetUUID(handle))),
            kind=GPUS,
            model=_text(nvml.nvmlDeviceGetName(handle)),
            memory=int(memory.total),
            outside_use=_outside_use(nvml, handle, int(memory.used), own_pids),
        )
    except nvml.NVMLError as error:
        log.warning("GPU %d does not answer and is left out: %s", index, error)
        return None


def _outside_use(nvml: Any, handle: Any, used: int, own_pids: Collection[int]) -> str:
    """By the processes that NVML names; if it names none (other containers), by what is held and how busy it is."""
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    strangers = [p for p in processes if p.pid not in own_pids]
    if strangers:
        return ", ".join(f"process {p.pid}{_held(p.usedGpuMemory)}" for p in strangers)
    if processes:
        return ""  # all ours: what is held and done there is explained
    if used >= HELD_MEMORY:
        return f"an unknown process holds {format_size(used)}"
    busy = _utilisation(nvml, handle)
    return f"an unknown process keeps it {busy} % busy" if busy >= BUSY_PERCENT else ""


def _held(memory: int | None) -> str:
    return f" holds {format_size(memory)}" if memory else ""


def _utilisation(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError:
        return 0  # not every device can tell


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
