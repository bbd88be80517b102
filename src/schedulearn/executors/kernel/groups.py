"""The control groups of one worker, version 1 or 2: what it used, what it may use, and how that is changed."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.units import format_size
from schedulearn.core.domain.usage import USUAL_WEIGHT, WEIGHTS, Limits

CPU, CPUACCT, MEMORY, BLKIO, PIDS, DEVICES = "cpu", "cpuacct", "memory", "blkio", "pids", "devices"
PERIOD = 100_000  # microseconds in which a CPU quota is given out
SMALLEST_QUOTA = 1_000  # the kernel takes no less
_USUAL_SHARES = 1024  # version 1's word for the usual weight
_SHARES = (2, 262_144)
_PAGES = 1 << 16  # bytes: no kernel counts memory in larger pages
_UNLIMITED = 1 << 60  # version 1 says "no limit" with a number that no machine has


def quota_for(cpus: float) -> int:
    """Microseconds of each period; a fraction of a core stays a fraction."""
    return max(SMALLEST_QUOTA, round(cpus * PERIOD))


def shares_for(weight: int) -> int:
    low, high = _SHARES
    return min(high, max(low, round(weight * _USUAL_SHARES / USUAL_WEIGHT)))


def weight_of(shares: int) -> int:
    low, high = WEIGHTS
    return min(high, max(low, round(shares * USUAL_WEIGHT / _USUAL_SHARES)))


@dataclass(frozen=True, slots=True)
class Counters:
    """What groups count. None: no group of the worker counts that."""

    cpu_seconds: float | None = None
    memory: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The folders of control groups: those of one worker, or those in which workers may be given theirs."""

    cpu: Path | None = None  # version 1, as all but the last
    cpuacct: Path | None = None
    memory: Path | None = None
    blkio: Path | None = None
    pids: Path | None = None
    devices: Path | None = None
    unified: Path | None = None  # version 2, which has all in one

    def __bool__(self) -> bool:
        return self != NO_CGROUPS


NO_CGROUPS = Cgroups()


# --- reading


def read_counters(at: Cgroups) -> Counters:
    """OSError if the worker has ended and its groups are gone."""
    if at.unified is not None:
        return _counters_v2(at.unified)
    read, written = _blkio(at.blkio) if at.blkio else (None, None)
    cpu = int(_text(at.cpuacct / "cpuacct.usage")) / 1e9 if at.cpuacct else None
    return Counters(cpu, _memory_v1(at.memory) if at.memory else None, read, written)


def _memory_v1(folder: Path) -> int:
    droppable = _fields(folder / "memory.stat").get("total_inactive_file", 0)
    return max(0, int(_text(folder / "memory.usage_in_bytes")) - droppable)


def _blkio(folder: Path) -> tuple[int, int] | tuple[None, None]:
    """Lines such as `8:0 Read 4096`. Newer kernels count here only where something is throttled: else it is empty."""
    totals = {"Read": 0, "Write": 0}
    lines = [line.split() for line in _text(folder / "blkio.throttle.io_service_bytes_recursive").splitlines()]
    counted = [words for words in lines if len(words) == 3 and words[1] in totals]
    for _, direction, count in counted:
        totals[direction] += int(count)
    return (totals["Read"], totals["Write"]) if counted else (None, None)


def _counters_v2(folder: Path) -> Counters:
    read = written = memory = None
    with suppress(FileNotFoundError):  # each controller is only there where it was enabled; cpu.stat always is
        held = int(_text(folder / "memory.current"))
        memory = max(0, held - _fields(folder / "memory.stat").get("inactive_file", 0))
    with suppress(FileNotFoundError):
        words = [word.partition("=") for word in _text(folder / "io.stat").split()]
        read = sum(int(value) for name, _, value in words if name == "rbytes")
        written = sum(int(value) for name, _, value in words if name == "wbytes")
    return Counters(_fields(folder / "cpu.stat")["usage_usec"] / 1e6, memory, read, written)


def read_limits(at: Cgroups) -> Limits:
    """The limits in force, as the kernel says."""
    if at.unified is not None:
        return Limits(_cpus_v2(at.unified), _weight_v2(at.unified), _memory_limit(at.unified / "memory.max"))
    cpus = weight = memory = None
    if at.cpu:
        quota, period = int(_text(at.cpu / "cpu.cfs_quota_us")), int(_text(at.cpu / "cpu.cfs_period_us"))
        cpus = quota / period if quota > 0 else None
        weight = weight_of(int(_text(at.cpu / "cpu.shares")))
    if at.memory:
        memory = _memory_limit(at.memory / "memory.limit_in_bytes")
    return Limits(cpus, weight, memory)


def _cpus_v2(folder: Path) -> float | None:
    quota, _, period = _optional(folder / "cpu.max").partition(" ")
    return None if quota in ("", "max") else int(quota) / int(period)


def _weight_v2(folder: Path) -> int | None:
    text = _optional(folder / "cpu.weight")
    return int(text) if text else None


def _memory_limit(file: Path) -> int | None:
    text = _optional(file)
    return None if text in ("", "max") or int(text) >= _UNLIMITED else int(text)


def members(at: Cgroups) -> list[int]:
    """The processes in these groups."""
    folder = at.unified or at.cpuacct or at.cpu or at.memory
    return [int(pid) for pid in _text(folder / "cgroup.procs").split()] if folder else []


def in_force(asked: Limits, read: Limits) -> bool:
    """Whether the limits that were read are those that were asked, but for the kernel's rounding (quota, pages)."""
    return (
        (asked.cpus is None or (read.cpus is not None and quota_for(asked.cpus) == round(read.cpus * PERIOD)))
        and asked.weight in (None, read.weight)
        and (asked.memory is None or (read.memory is not None and abs(asked.memory - read.memory) < _PAGES))
    )


# --- writing

_Change = tuple[Path, str]  # a file and what to write into it


def write_limits(at: Cgroups, limits: Limits) -> Limits:
    """Set what is asked, all of it or nothing. Returns what was read back; ExecutorError says why nothing changed."""
    _check_memory(at, limits)
    changes = list(_changes(at, limits))
    before = [(file, _text(file).strip()) for file, _ in changes]
    for done, (file, value) in enumerate(changes):
        try:
            _write(file, value)
        except OSError as error:
            _undo(before[:done])
            raise ExecutorError(f"the kernel refuses {value} in {file.name}: {error.strerror}") from error
    after = read_limits(at)
    if not in_force(limits, after):
        _undo(before)
        raise ExecutorError(f"the kernel took {limits}, but shows {after}")
    return after


def _check_memory(at: Cgroups, limits: Limits) -> None:
    """Version 2 would not refuse, but kill."""
    if limits.memory is None:
        return
    held = read_counters(at).memory
    if held is not None and held > limits.memory:
        raise ExecutorError(
            f"a memory limit of {format_size(limits.memory)} is below the {format_size(held)} that it holds"
        )


def _changes(at: Cgroups, limits: Limits) -> Iterator[_Change]:
    if at.unified is not None:
        yield from _changes_v2(at.unified, limits)
        return
    if limits.cpus is not None:
        folder = _needed(at.cpu, "CPU limit")
        yield folder / "cpu.cfs_period_us", str(PERIOD)
        yield folder / "cpu.cfs_quota_us", str(quota_for(limits.cpus))
    if limits.weight is not None:
        yield _needed(at.cpu, "CPU weight") / "cpu.shares", str(shares_for(limits.weight))
    if limits.memory is not None:
        yield from _memory_changes_v1(_needed(at.memory, "memory limit"), limits.memory)


def _memory_changes_v1(folder: Path, limit: int) -> Iterable[_Change]:
    """Memory may never be above memory with swap, not even for a moment: the order depends on the direction."""
    plain, with_swap = folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"
    files = [plain, with_swap] if with_swap.exists() else [plain]  # not every kernel counts swap
    if limit > int(_text(plain)):
        files.reverse()
    return [(file, str(limit)) for file in files]


def _changes_v2(folder: Path, limits: Limits) -> Iterator[_Change]:
    if limits.cpus is not None:
        yield _present(folder / "cpu.max", "CPU limit"), f"{quota_for(limits.cpus)} {PERIOD}"
    if limits.weight is not None:
        yield _present(folder / "cpu.weight", "CPU weight"), str(limits.weight)
    if limits.memory is not None:
        yield _present(folder / "memory.max", "memory limit"), str(limits.memory)


def _needed(folder: Path | None, what: str) -> Path:
    if folder is None:
        raise ExecutorError(f"no {what} can be set here: the worker has no control group for it")
    return folder


def _present(file: Path, what: str) -> Path:
    return _needed(file if file.exists() else None, what)


def _undo(before: list[_Change]) -> None:
    for file, value in reversed(before):
        with suppress(OSError):
            _write(file, value)


def _write(file: Path, value: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)


# --- files


def _text(file: Path) -> str:
    with open(file, encoding="ascii") as handle:
        return handle.read()


def _optional(file: Path) -> str:
    try:
        return _text(file).strip()
    except FileNotFoundError:
        return ""


def _fields(file: Path) -> dict[str, int]:
    """A file of lines `name number`."""
    return {name: int(value) for name, _, value in (line.partition(" ") for line in _text(file).splitlines())}
