"""The control groups that a worker is put into, version 1 or 2, where this process may make them.

Groups are made below the group this process is in, so a limit set around the service also holds for its jobs.
A worker without limits has groups, too: they count what it uses, and limits may be set later.
Here it is only decided which files are to be written; the shim writes them, and falls back to core affinity and to
watching the tree's memory where that fails.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.executors.kernel.groups import (
    CPU,
    CPUACCT,
    DEVICES,
    MEMORY,
    PERIOD,
    PIDS,
    GroupFolders,
    quota_for,
)
from schedulearn.executors.kernel.hierarchy import UNIFIED, folder_of, read_groups, read_mounts

PARENT = "schedulearn"  # the group around all workers' groups
MOST_PROCESSES = 4096  # of one worker, threads included: a runaway fork must not take the machine with it
_RESERVE, _MOST_RESERVE = 0.05, 1 << 30  # of a machine's memory, and bytes: what all workers together leave
_NVIDIA = 195  # the major number of its device files

Plan = dict[str, Any]  # one group as the shim reads it from launch.json: dir, controllers, steps, oom
Step = tuple[str, str, str]  # ("mkdir" | "write" | "try", path, value); a "try" may fail
Setting = tuple[str, str, str]  # the same with the name of a file in the group


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups may be made. All None: nowhere."""

    cpu: Path | None = None  # version 1, as all but the last
    cpuacct: Path | None = None
    memory: Path | None = None
    pids: Path | None = None
    devices: Path | None = None
    unified: Path | None = None  # version 2

    def plan(
        self,
        name: str,
        cpus: float | None,
        memory: int | None,
        *,
        all_workers: int | None = None,
        denied: Sequence[str] = (),
    ) -> list[Plan]:
        """The groups that hold one worker to its limits and count what it uses.

        `all_workers`: bytes that all workers together may take. `denied`: device files, as version 1 names them.
        """
        if self.unified is not None:
            return [_plan_unified(self.unified, name, cpus, memory, all_workers)]
        together: dict[Path, list[str]] = {}  # controllers may share one hierarchy: mostly cpu and cpuacct do
        for controller in (CPU, CPUACCT, MEMORY, PIDS, *((DEVICES,) if denied else ())):
            base: Path | None = getattr(self, controller)
            if base is not None:
                together.setdefault(base, []).append(controller)
        settings = {CPU: _cpu_v1(cpus), MEMORY: _memory_v1(memory), PIDS: _pids_v1(), DEVICES: _devices_v1(denied)}
        return [
            _plan_v1(base, name, controllers, [s for c in controllers for s in settings.get(c, [])], all_workers)
            for base, controllers in together.items()
        ]

    @property
    def held(self) -> list[str]:
        """What workers are held to, for a person."""
        if self.unified is not None:
            return [CPU, MEMORY, *([PIDS] if PIDS in _controllers(self.unified) else [])]
        return [controller for controller in (CPU, MEMORY, PIDS) if getattr(self, controller) is not None]


NO_CGROUPS = Cgroups()


def _cpu_v1(cpus: float | None) -> list[Setting]:
    if cpus is None:
        return []
    return [("write", "cpu.cfs_period_us", str(PERIOD)), ("write", "cpu.cfs_quota_us", str(quota_for(cpus)))]


def _memory_v1(limit: int | None) -> list[Setting]:
    if limit is None:
        return []
    # Without the second, swap would only make a job slow instead of ending it; not every kernel counts swap.
    return [("write", "memory.limit_in_bytes", str(limit)), ("try", "memory.memsw.limit_in_bytes", str(limit))]


def _pids_v1() -> list[Setting]:
    return [("write", "pids.max", str(MOST_PROCESSES))]


def _devices_v1(denied: Sequence[str]) -> list[Setting]:
    return [("write", "devices.deny", rule) for rule in denied]


def _plan_v1(
    base: Path, name: str, controllers: list[str], settings: list[Setting], all_workers: int | None = None
) -> Plan:
    folder = base / PARENT / name
    steps = [("mkdir", str(folder), ""), *((action, str(folder / file), value) for action, file, value in settings)]
    oom = str(folder / "memory.oom_control") if MEMORY in controllers else None
    if oom and all_workers is not None:
        steps.append(("try", str(folder.parent / "memory.limit_in_bytes"), str(all_workers)))
    return {"dir": str(folder), "controllers": controllers, "steps": steps, "oom": oom}


def _plan_unified(
    base: Path, name: str, cpus: float | None, memory: int | None, all_workers: int | None = None
) -> Plan:
    parent, folder = base / PARENT, base / PARENT / name
    enabling = [base / "cgroup.subtree_control", parent / "cgroup.subtree_control"]
    steps: list[Step] = [("mkdir", str(parent), "")]
    steps += [("try", str(file), f"+{controller}") for controller in (PIDS, "io") for file in enabling]
    steps += [("write", str(file), f"+{CPU} +{MEMORY}") for file in enabling]
    if all_workers is not None:
        steps.append(("try", str(parent / "memory.max"), str(all_workers)))
    steps += [("mkdir", str(folder), ""), ("try", str(folder / "pids.max"), str(MOST_PROCESSES))]
    if cpus is not None:
        steps.append(("write", str(folder / "cpu.max"), f"{quota_for(cpus)} {PERIOD}"))
    if memory is not None:
        steps.append(("write", str(folder / "memory.max"), str(memory)))
        steps.append(("try", str(folder / "memory.swap.max"), "0"))
        steps.append(("try", str(folder / "memory.oom.group"), "1"))
    return {
        "dir": str(folder),
        "controllers": [CPU, MEMORY],
        "steps": steps,
        "oom": str(folder / "memory.events"),
    }


def for_all_workers(machine: float) -> int:
    """Of the machine's memory: the rest is for the service and the system, whatever jobs without a limit do."""
    return int(machine - min(machine * _RESERVE, _MOST_RESERVE))


def gpu_rules(minors: Iterable[int]) -> list[str]:
    """Device files of GPUs, as version 1 names them."""
    return [f"c {_NVIDIA}:{minor} rwm" for minor in minors]


def made_groups(plans: Iterable[Plan]) -> GroupFolders:
    """Where the groups of a worker are that runs: those of its plans that could be made."""
    there: dict[str, Path] = {}
    for plan in plans:
        folder = Path(plan["dir"])
        if (folder / "cgroup.controllers").exists():  # version 2 alone has that file
            return GroupFolders(unified=folder)
        if folder.is_dir():
            there |= dict.fromkeys(plan["controllers"], folder)
    return GroupFolders(there.get(CPU), there.get(CPUACCT), there.get(MEMORY))


def detect(proc: Path = Path("/proc/self"), writable: Callable[[Path], bool] | None = None) -> Cgroups:
    """Where this process may make groups, by what the kernel says of its mounts and of its own groups."""
    may_write = writable or (lambda folder: os.access(folder, os.W_OK | os.X_OK))
    try:
        mounts = read_mounts((proc / "mountinfo").read_text())
        own = read_groups((proc / "cgroup").read_text())
    except OSError:
        return NO_CGROUPS

    def find(controller: str) -> Path | None:
        folder = folder_of(mounts, own, controller)
        return folder if folder and may_write(folder) else None

    unified = find(UNIFIED)
    if unified is not None and not {CPU, MEMORY} <= _controllers(unified):
        unified = None
    if unified is not None:
        return Cgroups(unified=_delegated_parent(unified) or unified)
    return Cgroups(find(CPU), find(CPUACCT), find(MEMORY), find(PIDS), find(DEVICES))


def _controllers(folder: Path) -> set[str]:
    try:
        return set((folder / "cgroup.controllers").read_text().split())
    except OSError:
        return set()


def _delegated_parent(folder: Path) -> Path | None:
    """A version 2 group with processes of its own may not divide its resources; systemd can give us the one above."""
    for attribute in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder.parent, attribute) == b"1":
                return folder.parent
        except OSError:
            continue
    return None
