"""Energy, where the machine can tell: its processors by RAPL, its GPUs by NVML.

Processors count the energy of all together. A worker's part of it is its part of the CPU time that was used
meanwhile. A GPU is leased to one worker, so all it takes meanwhile is that worker's.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import DeviceId, WorkerId

POWERCAP = Path("/sys/class/powercap")
_TICKS = os.sysconf("SC_CLK_TCK")


class Rapl:
    """The joules of all processors and their memory since this was made. Counters that begin anew are seen through."""

    def __init__(self, root: Path = POWERCAP) -> None:
        self._last: dict[Path, int] = {}
        self._total = 0.0  # microjoules
        self._lock = threading.Lock()
        for zone in _zones(root):
            with suppress(OSError, ValueError):  # many systems let only root read it
                self._last[zone] = _number(zone / "energy_uj")

    @property
    def present(self) -> bool:
        return bool(self._last)

    def joules(self) -> float:
        with self._lock:
            for zone, before in self._last.items():
                with suppress(OSError, ValueError):
                    now = _number(zone / "energy_uj")
                    self._total += now - before if now >= before else now - before + _range(zone)
                    self._last[zone] = now
            return self._total / 1e6


def _zones(root: Path) -> list[Path]:
    """A package counts its cores, but on many machines not its memory (dram)."""
    packages = sorted(zone for zone in root.glob("*-rapl:*") if _name(zone).startswith("package"))
    memory = sorted(zone for zone in root.glob("*-rapl:*:*") if _name(zone) == "dram")
    return packages + memory


def _name(zone: Path) -> str:
    with suppress(OSError):
        return (zone / "name").read_text().strip()
    return ""


def _number(file: Path) -> int:
    return int(file.read_text())


def _range(zone: Path) -> int:
    with suppress(OSError, ValueError):
        return _number(zone / "max_energy_range_uj")
    return 0


def busy_seconds() -> float:
    """Core-seconds that this machine has spent on anything, since it started."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / _TICKS


class Gpus:
    """The joules of single GPUs, by NVML."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._tried = False

    def joules(self, device: DeviceId) -> float | None:
        """Since its driver was loaded; None if it is not known."""
        nvml = self._library()
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(device)
            return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
        except nvml.NVMLError:
            return None  # not every device can tell

    def _library(self) -> Any:
        if not self._tried:
            self._tried = True
            import pynvml  # only needed where a worker has a GPU

            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                self._nvml = pynvml
        return self._nvml


@dataclass(slots=True)
class _Account:
    """What one worker has used, and the counters when it was last looked at."""

    processors: float
    busy: float
    cpu_seconds: float
    devices: dict[DeviceId, float]
    total: float = 0.0


class EnergyMeter:
    """Keeps an account for each worker. Any thread may call it."""

    def __init__(
        self, rapl: Rapl | None = None, gpus: Gpus | None = None, busy: Callable[[], float] = busy_seconds
    ) -> None:
        self._rapl, self._gpus, self._busy = rapl or Rapl(), gpus or Gpus(), busy
        self._accounts: dict[WorkerId, _Account] = {}
        self._lock = threading.Lock()

    def joules(self, worker: WorkerId, cpu_seconds: float, devices: Sequence[DeviceId] = ()) -> float | None:
        """Used since it was first asked for this worker; `cpu_seconds` is what the worker has used in all by now."""
        if not self._rapl.present and not devices:
            return None
        counted = {device: joules for device in devices if (joules := self._gpus.joules(device)) is not None}
        if not self._rapl.present and not counted:
            return None
        with self._lock:
            now = _Account(self._rapl.joules(), self._busy(), cpu_seconds, counted)
            before = self._accounts.get(worker, now)
            now.total = before.total + _processors(before, now) + _devices(before, now)
            self._accounts[worker] = now
            return now.total

    def forget(self, worker: WorkerId) -> None:
        with self._lock:
            self._accounts.pop(worker, None)


def _processors(before: _Account, now: _Account) -> float:
    used, busy = now.cpu_seconds - before.cpu_seconds, now.busy - before.busy
    if used <= 0:
        return 0.0
    return (now.processors - before.processors) * min(1.0, used / max(busy, used))


def _devices(before: _Account, now: _Account) -> float:
    return sum(max(0.0, joules - before.devices.get(device, joules)) for device, joules in now.devices.items())
