"""In which order the limits of a running worker change, and what is written into its control file then."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.control import content
from schedulearn.executors.common.environment import threads_for
from schedulearn.executors.kernel.groups import in_force

log = logging.getLogger(__name__)
ACK_WITHIN = 2.0  # seconds in which a worker should have fewer threads; a step of its training may take longer
_LOOK_AGAIN = 0.02
LARGEST_ACK = 4096  # bytes: whatever a job writes there


class Ack(NamedTuple):
    """What a worker says of its threads."""

    threads: int
    fixed: bool  # they cannot change while it runs


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
    """Who says nothing of threads, or cannot change them, is not waited for."""
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
