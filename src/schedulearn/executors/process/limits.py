"""Changing the limits of a process worker while it runs, through its control groups."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.launching import workers_now_in
from schedulearn.executors.common.paths import WorkerPaths, read_small, write_file
from schedulearn.executors.kernel.change import LARGEST_ACK, Ack, change, control_text, read_ack
from schedulearn.executors.kernel.groups import GroupFolders, read_limits, write_limits
from schedulearn.executors.process.leftovers import read_orders


def change_limits(paths: WorkerPaths, groups: GroupFolders, limits: Limits, cores: float) -> Limits | None:
    """Returns the limits in force; None: they were so before. ExecutorError or OSError if nothing could be changed."""
    if not groups:
        raise ExecutorError("limits cannot change here while a job runs: the service may make no control groups")
    held = _held(paths)
    return change(
        limits,
        limits_each(paths, groups),
        cores,
        lambda asked: write_limits(groups, asked.times(held)).shared_by(held),
        partial(_tell, paths, cores),
        partial(said_of_threads, paths),
    )


def limits_each(paths: WorkerPaths, groups: GroupFolders) -> Limits:
    """Those of one worker, where this one may carry others."""
    return read_limits(groups).shared_by(_held(paths)) if groups else Limits()


def said_of_threads(paths: WorkerPaths) -> Ack | None:
    try:
        return read_ack(_beginning(paths.ack))
    except OSError:
        return None


def _beginning(file: Path) -> bytes:
    """The job owns it, and may have made it huge, a link or a pipe."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(handle, LARGEST_ACK)
    finally:
        os.close(handle)


def _tell(paths: WorkerPaths, cores: float, limits: Limits) -> None:
    write_file(paths.control, control_text(known_control(paths), limits, cores))


def _held(paths: WorkerPaths) -> int:
    """For how many workers its limits must do."""
    return workers_now_in(bool(read_orders(paths).get("carries_group")), known_control(paths))


def known_control(paths: WorkerPaths) -> bytes:
    """What the control file says now."""
    with suppress(FileNotFoundError, ValueError):
        return read_small(paths.control)
    return b""
