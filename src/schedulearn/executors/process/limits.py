"""Changing the limits of a process worker while it runs, through its control groups."""

from contextlib import suppress
from functools import partial

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.usage import Limits
from schedulearn.executors.common.launching import workers_now_in
from schedulearn.executors.common.paths import WorkerPaths, write_file
from schedulearn.executors.kernel.change import Ack, change, control_text, read_ack
from schedulearn.executors.kernel.groups import GroupFolders, read_limits, write_limits
from schedulearn.executors.process.leftovers import read_orders


def change_limits(paths: WorkerPaths, groups: GroupFolders, limits: Limits, cores: float) -> Limits | None:
    """Returns the limits in force; None: they were so before. ExecutorError or OSError if nothing could be changed."""
    if not groups:
        raise ExecutorError("limits cannot change here while a job runs: the service may make no control groups")
    held = workers_now_in(bool(read_orders(paths).get("carries_group")), _known(paths))
    return change(
        limits,
        read_limits(groups).shared_by(held),
        cores,
        lambda asked: write_limits(groups, asked.times(held)).shared_by(held),
        partial(_tell, paths, cores),
        partial(said_of_threads, paths),
    )


def said_of_threads(paths: WorkerPaths) -> Ack | None:
    try:
        return read_ack(paths.ack.read_bytes())
    except OSError:
        return None


def _tell(paths: WorkerPaths, cores: float, limits: Limits) -> None:
    write_file(paths.control, control_text(_known(paths), limits, cores))


def _known(paths: WorkerPaths) -> bytes:
    """What the control file says now."""
    with suppress(FileNotFoundError):
        return paths.control.read_bytes()
    return b""
