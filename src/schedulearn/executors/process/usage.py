"""What the workers of this machine use: by their control groups, and from /proc where they have none."""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace

from schedulearn.core.domain.ids import DeviceId, WorkerId
from schedulearn.core.domain.usage import Usage
from schedulearn.executors.common.paths import WorkerPaths, read_orders
from schedulearn.executors.kernel.energy import EnergyMeter
from schedulearn.executors.kernel.groups import Counters, members
from schedulearn.executors.kernel.procfs import descendants, proportional, resident, stat_fields
from schedulearn.executors.kernel.usage import Place, block_traffic, measure
from schedulearn.executors.process.cgroups import made_groups
from schedulearn.executors.process.claim import Claim

_TICKS = os.sysconf("SC_CLK_TCK")


class UsageReader:
    """Remembers where to look. Any thread may call it."""

    def __init__(self, energy: EnergyMeter | None = None) -> None:
        self._energy = energy or EnergyMeter()
        self._places: dict[WorkerId, Place] = {}
        self._lock = threading.Lock()

    def read(self, worker: WorkerId, paths: WorkerPaths, claim: Claim, now: float) -> Usage | None:
        """None: it has just ended."""
        place = self.place(worker, paths, claim.child_pid)

        def with_proc(counted: Counters) -> Counters:
            if None not in (counted.cpu_seconds, counted.memory, counted.read_bytes):
                return counted
            return complete(counted, claim.pid, members(place.groups) or descendants(claim.pid))

        return measure(worker, place, self._energy, now, with_proc)

    def place(self, worker: WorkerId, paths: WorkerPaths, pid: int) -> Place:
        with self._lock:
            found = self._places.get(worker)
            if found is None:
                orders = read_orders(paths)
                visible = str(orders.get("env", {}).get("CUDA_VISIBLE_DEVICES", ""))
                devices = tuple(DeviceId(device) for device in visible.split(",") if device)
                found = self._places[worker] = Place(made_groups(orders.get("groups", ())), pid, devices)
            return found

    def forget(self, worker: WorkerId) -> None:
        self._energy.forget(worker)
        with self._lock:
            self._places.pop(worker, None)


def complete(counted: Counters, shim: int, pids: Sequence[int]) -> Counters:
    """With what groups did not count filled in from /proc. Ended processes count as far as they were waited for."""
    if not pids:
        return counted
    if counted.cpu_seconds is None:
        waited_for = _ticks(shim, (13, 14))
        used = sum(_ticks(pid, (11, 12, 13, 14)) for pid in pids)  # each with the children that it waited for
        counted = replace(counted, cpu_seconds=waited_for + used)
    if counted.memory is None:
        memory = resident(pids[0]) if len(pids) == 1 else sum(map(proportional, pids))
        counted = replace(counted, memory=memory)
    if counted.read_bytes is None:
        read, written = block_traffic([shim, *pids])  # the shim's own is what it writes of the worker's output
        counted = replace(counted, read_bytes=read, written_bytes=written)
    return counted


def _ticks(pid: int, columns: Sequence[int]) -> float:
    try:
        fields = stat_fields(pid)
        return sum(int(fields[column]) for column in columns) / _TICKS
    except (OSError, IndexError):
        return 0.0  # it has ended meanwhile
