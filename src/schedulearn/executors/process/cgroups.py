"""The control groups that a worker is put into, version 1 or 2, where this process may make them.

Groups are made below the group this process is in, so a limit set around the service also holds for its jobs.
A worker without limits has groups, too: they count what it uses, and limits may be set later.
Here it is only decided which files are to be written; the shim writes them, and falls back to core affinity and to
watching the tree's memory where that fails.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from schedulearn.executors.kernel.groups import (
    CPU,
    CPUACCT,
    DEVICES,
    MEMORY,
    NO_CGROUPS,
    PERIOD,
    PIDS,
    Cgroups,
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


def plan(
    at: Cgroups,
    name: str,
    cpus: float | None,
    memory: int | None,
    *,
    all_workers: int | None = None,
    denied: Sequence[str] = (),
) -> list[Plan]:
    """The groups that hold one worker to its limits and count what it uses, below those at `at`.

    `all_workers`: bytes that all workers together may take. `denied`: device files, as version 1 names them.
    """
    if at.unified is not None:
        return [_plan_v2(at.unified, name, cpus, memory, all_workers)]
    settings = _settings_v1(cpus, memory, denied)
    together: dict[Path, list[str]] = {}  # controllers may share one hierarchy: mostly cpu and cpuacct do
    for controller in settings:
        base: Path | None = getattr(at, controller)
        if base is not None:
            together.setdefault(base, []).append(controller)
    return [
        _plan_v1(base / PARENT / name, {c: settings[c] for c in controllers}, all_workers)
        for base, controllers in together.items()
    ]


def _settings_v1(cpus: float | None, memory: int | None, denied: Sequence[str]) -> dict[str, list[Setting]]:
    """By controller; those that only count are there as well."""
    settings: dict[str, list[Setting]] = {CPU: [], CPUACCT: [], MEMORY: [], PIDS: []}
    if cpus is not None:
        settings[CPU] = [
            ("write", "cpu.cfs_period_us", str(PERIOD)),
            ("write", "cpu.cfs_quota_us", str(quota_for(cpus))),
        ]
    if memory is not None:
        # Without the second, swap would only make a job slow instead of ending it; not every kernel counts swap.
        files = {"memory.limit_in_bytes": "write", "memory.memsw.limit_in_bytes": "try"}
        settings[MEMORY] = [(action, file, str(memory)) for file, action in files.items()]
    settings[PIDS] = [("write", "pids.max", str(MOST_PROCESSES))]
    if denied:
        settings[DEVICES] = [("write", "devices.deny", rule) for rule in denied]
    return settings


def _plan_v1(folder: Path, settings: dict[str, list[Setting]], all_workers: int | None) -> Plan:
    steps = [("mkdir", str(folder), "")]
    steps += [(action, str(folder / file), value) for of_one in settings.values() for action, file, value in of_one]
    oom = str(folder / "memory.oom_control") if MEMORY in settings else None
    if oom and all_workers is not None:
        steps.append(("try", str(folder.parent / "memory.limit_in_bytes"), str(all_workers)))
    return {"dir": str(folder), "controllers": list(settings), "steps": steps, "oom": oom}


def _plan_v2(base: Path, name: str, cpus: float | None, memory: int | None, all_workers: int | None) -> Plan:
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
    return {"dir": str(folder), "controllers": [CPU, MEMORY], "steps": steps, "oom": str(folder / "memory.events")}


def held_to(at: Cgroups) -> list[str]:
    """What workers with groups below these are held to, for a person."""
    if at.unified is not None:
        return [CPU, MEMORY, *([PIDS] if PIDS in _controllers(at.unified) else [])]
    return [controller for controller in (CPU, MEMORY, PIDS) if getattr(at, controller) is not None]


def for_all_workers(machine: float) -> int:
    """Of the machine's memory: the rest is for the service and the system, whatever jobs without a limit do."""
    return int(machine - min(machine * _RESERVE, _MOST_RESERVE))


def gpu_rules(minors: Iterable[int]) -> list[str]:
    """Device files of GPUs, as version 1 names them."""
    return [f"c {_NVIDIA}:{minor} rwm" for minor in minors]


def made_groups(plans: Iterable[Plan]) -> Cgroups:
    """Where the groups of a worker are that runs: those of its plans that could be made."""
    there: dict[str, Path] = {}
    for plan in plans:
        folder = Path(plan["dir"])
        if (folder / "cgroup.controllers").exists():  # version 2 alone has that file
            return Cgroups(unified=folder)
        if folder.is_dir():
            there |= dict.fromkeys(plan["controllers"], folder)
    return Cgroups(there.get(CPU), there.get(CPUACCT), there.get(MEMORY))


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
    return Cgroups(**{controller: find(controller) for controller in (CPU, CPUACCT, MEMORY, PIDS, DEVICES)})


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
