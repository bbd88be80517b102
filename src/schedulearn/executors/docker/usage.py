"""What containers use. Where the engine runs on this machine, by the kernel's own files; else by what it tells.

No caller waits for the engine: a thread of its own asks it, and callers get the latest answer.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import DeviceId, WorkerId
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.docker.calls import Calls, Refused
from schedulearn.executors.kernel.energy import EnergyMeter
from schedulearn.executors.kernel.groups import (
    BLKIO,
    CPU,
    CPUACCT,
    MEMORY,
    PERIOD,
    Cgroups,
    Counters,
    members,
    read_counters,
    weight_of,
)
from schedulearn.executors.kernel.hierarchy import UNIFIED, folder_of, read_groups, read_mounts
from schedulearn.executors.kernel.usage import PROC, Place, block_traffic, measure

log = logging.getLogger(__name__)
EVERY = 5.0  # seconds between two questions to an engine elsewhere
_AT_ONCE = 16  # questions to one engine
_FORGET_AFTER = 60.0  # seconds without a question after which a worker is not asked for any more


@dataclass(slots=True)
class _Watched:
    name: str  # of the container
    wanted_at: float  # when it was last asked for, on the monotonic clock
    examined: bool = False
    local: Place | None = None  # a container whose processes are on this machine
    limits: Limits = Limits()
    latest: Usage | None = None  # as the engine told


class ContainerUsage:
    """The containers of one engine. Any thread may call it."""

    def __init__(
        self,
        calls: Calls,
        name_of: Callable[[WorkerId], str],
        clock: Clock,
        *,
        every: float = EVERY,
        look_here: bool = True,  # False: never by the kernel's files
    ) -> None:
        self._calls, self._name_of, self._clock = calls, name_of, clock
        self._every, self._look_here = every, look_here
        self._energy = EnergyMeter()
        self._watched: dict[WorkerId, _Watched] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def read(self, worker: WorkerId) -> Usage | None:
        """None: nothing is known yet, or it has ended."""
        with self._lock:
            known = self._watched.get(worker)
            if known is None:
                known = self._watched[worker] = _Watched(self._name_of(worker), 0.0)
                self._begin()
            known.wanted_at = time.monotonic()
            local, latest = known.local, known.latest
        return self._measured(worker, local) if local else latest

    def refresh(self, worker: WorkerId) -> None:
        """Its limits have changed: ask for them again."""
        with self._lock:
            if known := self._watched.get(worker):
                known.examined = False
        self._wake.set()

    def forget(self, worker: WorkerId) -> None:
        self._energy.forget(worker)
        with self._lock:
            self._watched.pop(worker, None)

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def _begin(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="docker-usage", daemon=True)
            self._thread.start()
        self._wake.set()

    def _measured(self, worker: WorkerId, local: Place) -> Usage | None:
        def with_traffic(counted: Counters) -> Counters:
            if counted.read_bytes is not None:
                return counted
            read, written = block_traffic(members(local.groups))
            return replace(counted, read_bytes=read, written_bytes=written)

        return measure(worker, local, self._energy, self._clock.now(), with_traffic)

    # --- in the thread

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            try:
                self._round()
            except Exception:
                log.warning("what containers use could not be found out", exc_info=True)
            self._wake.wait(self._every)
        self._calls.close()

    def _round(self) -> None:
        """Ask for all that cannot be seen from here. The first question that is not answered ends the round."""
        open_questions = [known for known in self._wanted() if not (known.examined and known.local)]
        if open_questions:
            silent = threading.Event()
            # Engines answer at the next tick of a clock of their own, up to a second later: one by one is too slow.
            with ThreadPoolExecutor(min(_AT_ONCE, len(open_questions)), "docker-usage") as pool:
                list(pool.map(lambda known: self._settle(known, silent), open_questions))

    def _settle(self, known: _Watched, silent: threading.Event) -> None:
        if self._closed or silent.is_set():
            return
        try:
            if not known.examined:
                self._examine(known)
            if known.examined and not known.local:
                self._ask(known)
        except Unreachable as error:
            silent.set()
            log.debug("what containers use is not known: %s", error)
        except Refused:
            known.latest = None  # it does not exist yet, or any more

    def _wanted(self) -> list[_Watched]:
        oldest = time.monotonic() - _FORGET_AFTER
        with self._lock:
            self._watched = {worker: known for worker, known in self._watched.items() if known.wanted_at >= oldest}
            return list(self._watched.values())

    def _examine(self, known: _Watched) -> None:
        with self._calls.api() as api:
            told = api.inspect_container(known.name)
        if told["State"]["Running"]:
            here = find_here(told["Id"], told["State"]["Pid"]) if self._look_here else None
            known.local = replace(here, devices=_devices(told["HostConfig"])) if here else None
            known.limits = limits_of(told["HostConfig"])
            known.examined = True

    def _ask(self, known: _Watched) -> None:
        with self._calls.api() as api:
            told = api.stats(known.name, stream=False, one_shot=True)
        known.latest = usage_told(told, self._clock.now(), known.limits)


def find_here(container: str, pid: int, proc: Path = PROC) -> Place | None:
    """The container on this machine; None if its engine is elsewhere, or its files cannot be read.

    The same pid may be any process here. It is the container's if its control group has the container's own number.
    """
    try:
        mounts = read_mounts((proc / "self" / "mountinfo").read_text())
        groups = read_groups((proc / str(pid) / "cgroup").read_text())
    except (OSError, ValueError):
        return None
    ours = {controller: path for controller, path in groups.items() if container in path}
    unified = folder_of(mounts, ours, UNIFIED)
    if unified and (unified / "cpu.stat").exists() and CPUACCT not in ours:
        found = Cgroups(unified=unified)
    else:
        found = Cgroups(*(folder_of(mounts, ours, controller) for controller in (CPU, CPUACCT, MEMORY, BLKIO)))
    try:
        counted = read_counters(found).cpu_seconds
    except OSError:
        return None
    return Place(found, pid) if counted is not None else None


def limits_of(host_config: Mapping[str, Any]) -> Limits:
    """What the engine says of a container."""
    quota, period = host_config.get("CpuQuota") or 0, host_config.get("CpuPeriod") or PERIOD
    shares, memory = host_config.get("CpuShares") or 0, host_config.get("Memory") or 0
    return Limits(
        cpus=quota / period if quota > 0 else None,
        weight=weight_of(shares) if shares > 0 else None,
        memory=memory if memory > 0 else None,
    )


def _devices(host_config: Mapping[str, Any]) -> tuple[DeviceId, ...]:
    requests = host_config.get("DeviceRequests") or []
    return tuple(DeviceId(device) for request in requests for device in request.get("DeviceIDs") or ())


def usage_told(told: Mapping[str, Any], now: float, limits: Limits) -> Usage | None:
    """From an answer of the engine; None if the container does not run."""
    memory = told.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    droppable = details.get("total_inactive_file", details.get("inactive_file", 0))
    networks = told.get("networks")
    read, written = _block_bytes(told.get("blkio_stats") or {})
    return Usage(
        now,
        told["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        max(0, memory["usage"] - droppable),
        read,
        written,
        sum(one["rx_bytes"] for one in networks.values()) if networks else None,
        sum(one["tx_bytes"] for one in networks.values()) if networks else None,
        None,
        limits,
    )


def _block_bytes(told: Mapping[str, Any]) -> tuple[int, int] | tuple[None, None]:
    """Version 1 writes Read, version 2 read; some kernels tell nothing."""
    entries = told.get("io_service_bytes_recursive") or []
    totals = {"read": 0, "write": 0}
    for entry in entries:
        operation = entry["op"].lower()
        if operation in totals:
            totals[operation] += entry["value"]
    return (totals["read"], totals["write"]) if entries else (None, None)
