"""CPU and memory limits through control groups, version 1 or 2, where this process may make them.

Groups are made below the group this process is in, so a limit set around the service also holds for its jobs.
Here it is only decided which files are to be written; the shim writes them, and falls back to core affinity and to
watching the tree's memory where that fails.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARENT = "schedulearn"  # the group around all workers' groups
PERIOD = 100_000  # microseconds in which a CPU quota is given out
SMALLEST_QUOTA = 1_000  # the kernel takes no less
MOST_PROCESSES = 4096  # of one worker, threads included: a runaway fork must not take the machine with it
CPU, MEMORY, PIDS = "cpu", "memory", "pids"

Plan = dict[str, Any]  # one group as the shim reads it from launch.json: dir, controllers, steps, oom
Step = tuple[str, str, str]  # ("mkdir" | "write" | "try", path, value); a "try" may fail


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups may be made. All None: nowhere."""

    cpu: Path | None = None  # version 1
    memory: Path | None = None  # version 1
    pids: Path | None = None  # version 1
    unified: Path | None = None  # version 2

    def plan(self, name: str, cpus: float | None, memory: int | None) -> list[Plan]:
        """The groups that hold one worker to its limits."""
        if self.unified is not None:
            return _plan_unified(self.unified, name, cpus, memory)
        plans = []
        if self.cpu is not None and cpus is not None:
            plans.append(_plan_v1(self.cpu, name, CPU, _cpu_v1(cpus)))
        if self.memory is not None and memory is not None:
            plans.append(_plan_v1(self.memory, name, MEMORY, _memory_v1(memory)))
        if self.pids is not None:
            plans.append(_plan_v1(self.pids, name, PIDS, [("write", "pids.max", str(MOST_PROCESSES))]))
        return plans


NO_CGROUPS = Cgroups()


def _quota(cpus: float) -> str:
    return str(max(SMALLEST_QUOTA, round(cpus * PERIOD)))


def _cpu_v1(cpus: float) -> list[tuple[str, str, str]]:
    return [("write", "cpu.cfs_period_us", str(PERIOD)), ("write", "cpu.cfs_quota_us", _quota(cpus))]


def _memory_v1(limit: int) -> list[tuple[str, str, str]]:
    # Without the second, swap would only make a job slow instead of ending it; not every kernel counts swap.
    return [("write", "memory.limit_in_bytes", str(limit)), ("try", "memory.memsw.limit_in_bytes", str(limit))]


def _plan_v1(base: Path, name: str, controller: str, settings: list[tuple[str, str, str]]) -> Plan:
    folder = base / PARENT / name
    steps = [("mkdir", str(folder), ""), *((action, str(folder / file), value) for action, file, value in settings)]
    oom = str(folder / "memory.oom_control") if controller == MEMORY else None
    return {"dir": str(folder), "controllers": [controller], "steps": steps, "oom": oom}


def _plan_unified(base: Path, name: str, cpus: float | None, memory: int | None) -> list[Plan]:
    controllers = [c for c, limit in ((CPU, cpus), (MEMORY, memory)) if limit is not None]
    if not controllers:
        return []
    parent, folder = base / PARENT, base / PARENT / name
    enable = " ".join(f"+{c}" for c in controllers)
    steps: list[Step] = [
        ("mkdir", str(parent), ""),
        ("try", str(base / "cgroup.subtree_control"), f"+{PIDS}"),
        ("try", str(parent / "cgroup.subtree_control"), f"+{PIDS}"),
        ("write", str(base / "cgroup.subtree_control"), enable),
        ("write", str(parent / "cgroup.subtree_control"), enable),
        ("mkdir", str(folder), ""),
        ("try", str(folder / "pids.max"), str(MOST_PROCESSES)),
    ]
    if cpus is not None:
        steps.append(("write", str(folder / "cpu.max"), f"{_quota(cpus)} {PERIOD}"))
    if memory is not None:
        steps.append(("write", str(folder / "memory.max"), str(memory)))
        steps.append(("try", str(folder / "memory.swap.max"), "0"))
        steps.append(("try", str(folder / "memory.oom.group"), "1"))
    oom = str(folder / "memory.events") if memory is not None else None
    return [{"dir": str(folder), "controllers": controllers, "steps": steps, "oom": oom}]


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    root: str  # which part of the hierarchy is mounted there
    options: frozenset[str]


def detect(proc: Path = Path("/proc/self"), writable: Callable[[Path], bool] | None = None) -> Cgroups:
    """Where this process may make groups, by what the kernel says of its mounts and of its own groups."""
    may_write = writable or (lambda folder: os.access(folder, os.W_OK | os.X_OK))
    try:
        mounts = _mounts((proc / "mountinfo").read_text())
        own = _own_groups((proc / "cgroup").read_text())
    except OSError:
        return NO_CGROUPS

    def find(version: str, controller: str) -> Path | None:
        for mount in mounts.get(version, []):
            if (controller in mount.options or version == "cgroup2") and controller in own:
                folder = _below(mount, own[controller])
                return folder if may_write(folder) else None
        return None

    unified = find("cgroup2", "")
    if unified is not None and not {CPU, MEMORY} <= _controllers(unified):
        unified = None
    if unified is not None:
        return Cgroups(unified=_delegated_parent(unified) or unified)
    return Cgroups(cpu=find("cgroup", CPU), memory=find("cgroup", MEMORY), pids=find("cgroup", PIDS))


def _mounts(mountinfo: str) -> Mapping[str, list[_Mount]]:
    found: dict[str, list[_Mount]] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind and kind[0] in ("cgroup", "cgroup2"):
            mount = _Mount(Path(fields[4]), fields[3], frozenset(kind[2].split(",")))
            found.setdefault(kind[0], []).append(mount)
    return found


def _own_groups(text: str) -> dict[str, str]:
    """Controller → path of this process's group; "" is version 2."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _below(mount: _Mount, path: str) -> Path:
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    return mount.point / inside.lstrip("/")


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
