"""What a worker is told in its control file while it runs: its limits, in which order they change, and its group."""

import json
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.paths import WorkerPaths, read_small
from schedulearn.executors.kernel.groups import in_force

log = logging.getLogger(__name__)
ACK_WITHIN = 2.0  # seconds in which a worker should have fewer threads; a step of its training may take longer
_LOOK_AGAIN = 0.02
LARGEST_ACK = 4096  # bytes: whatever a job writes there


class Ack(NamedTuple):
    """What a worker says of its threads."""

    threads: int
    fixed: bool  # they cannot change while it runs


def present_limits(launch: Launch, machine_cores: float) -> dict[str, object]:
    """What control.json says at the start."""
    return {
        "cpus": launch.cpu_limit,
        "threads": threads_for(launch.cpu_limit, machine_cores),
        "memory": launch.spec.resources.memory,
        **({"batches": [batches.min, batches.max]} if (batches := launch.spec.batch) else {}),
        **group_values(launch.group or Group(0, tuple(range(launch.world_size)))),
    }


def threads_for(cpu_limit: float | None, cores: float) -> int:
    """Threads above the limit collapse throughput, so never more than it allows."""
    return max(1, math.floor(cores if cpu_limit is None else cpu_limit))


# --- limits that change


def change(
    asked: Limits,
    before: Limits,
    cores: float,
    write: Callable[[Limits], Limits],
    tell: Callable[[Limits], None],
    hear: Callable[[], Ack | None],
) -> Limits | None:
    """Returns the limits in force; None: they were so before. ExecutorError or OSError if nothing could be changed.

    Threads above the quota collapse throughput. So a worker is told of a smaller one before, and has some time to have
    fewer; of a larger one it is told after. Of memory it is told only what was asked for: what is read back may be
    more, where the memory of workers that left was not taken away.
    """
    if in_force(asked, before):
        return None
    shrinks = (asked.cpus or cores) < (before.cpus or cores)
    if shrinks:
        tell(_without_memory(asked.over(before)))
        _await(threads_for(asked.cpus, cores), hear)
    try:
        after = write(asked)
    except (OSError, ExecutorError):
        if shrinks:
            tell(_without_memory(before))
        raise
    try:
        tell(replace(after, memory=asked.memory))
    except (OSError, ExecutorError) as error:  # a full disk, say: the limits hold, only the hint is old
        log.warning("a control file is not up to date: %s", error)
    return after


def _without_memory(limits: Limits) -> Limits:
    return replace(limits, memory=None)


def _await(threads: int, hear: Callable[[], Ack | None]) -> None:
    """A worker that says nothing of threads, or cannot change them, is not waited for."""
    deadline = time.monotonic() + ACK_WITHIN
    while (ack := hear()) and ack.threads > threads and not ack.fixed and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN)


def read_ack(text: bytes) -> Ack | None:
    """None: it says nothing, or nothing that we understand."""
    try:
        said = json.loads(text[:LARGEST_ACK])
        threads = int(said["threads"])
        return Ack(threads, said["fixed"] is True) if threads > 0 else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def fixed_threads(ack: Ack | None) -> int | None:
    """How many threads it has, if it cannot change that."""
    return ack.threads if ack and ack.fixed else None


def control_text(known: bytes, limits: Limits, cores: float) -> bytes:
    """The content of a control file; what is in it beside the limits stays, and so does the memory if none is given."""
    others = content(known)
    memory = others.get("memory") if limits.memory is None else limits.memory
    present = {"cpus": limits.cpus, "threads": threads_for(limits.cpus, cores), "memory": memory}
    return json.dumps({**others, **present}).encode()


# --- the group


def group_values(group: Group) -> dict[str, object]:
    """A group as the file has it."""
    return {"world_size": len(group.members), "generation": group.generation, "members": list(group.members)}


def with_group(known: bytes, group: Group) -> bytes | None:
    """The content of the file with this group; None if it has this one, or a newer one."""
    others = content(known)
    generation = others.get("generation")
    if isinstance(generation, int) and generation >= group.generation and "members" in others:
        return None
    return json.dumps({**others, **group_values(group)}).encode()


def with_batch(known: bytes, batch: int) -> bytes:
    """The content of the file with the batch size that the scheduler has chosen."""
    return json.dumps({**content(known), "batch": batch}).encode()


def leads(known: bytes, rank: int) -> bool:
    """Whether the worker with this rank is the first of the group. Where nothing is said of one, that is worker 0."""
    members = content(known).get("members")
    return rank == (members[0] if members and isinstance(members, list) else 0)


def led(worker: WorkerId, paths: WorkerPaths) -> bool:
    """Whether its files are those of the job: it is, or was at its end, the first of its group."""
    return leads(kept_control(paths), worker.rank)


def content(known: bytes) -> dict[str, Any]:
    """What is in the file; nothing, if that cannot be read."""
    try:
        return dict(json.loads(known))
    except (ValueError, TypeError, RecursionError):
        return {}


def kept_control(paths: WorkerPaths) -> bytes:
    """What the service last wrote for this worker; b"" if that cannot be read."""
    with suppress(FileNotFoundError, ValueError):
        return read_small(paths.control)
    return b""
