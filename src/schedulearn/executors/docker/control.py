"""The control file in a container. The job owns it there: it is only written, and what counts is the service's copy."""

from contextlib import suppress

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.archive import Entry, pack, read_file
from schedulearn.executors.common.control import leads, with_group
from schedulearn.executors.common.paths import WorkerPaths, write_file
from schedulearn.executors.common.paths import read_small as read_control
from schedulearn.executors.docker.calls import Refused
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.options import PLACES

_LARGEST = 1 << 16  # bytes: whatever a job makes of these files


def read_small(containers: Containers, container: str, path: str) -> bytes:
    """b"" if the job has removed it, or made something else of it."""
    with suppress(Refused):
        return read_file(containers.get(container, path), _LARGEST)
    return b""


def write_control(containers: Containers, container: str, owner: tuple[int, int], text: bytes) -> None:
    containers.put(container, pack([Entry(PLACES.control[1:], content=text, mode=0o644)], owner))


def regroup(containers: Containers, paths: WorkerPaths, container: str, owner: tuple[int, int], group: Group) -> bytes:
    """Tell it of the group, unless it knows of a newer one; returns what it is told now.

    The copy here says at its end whether it led. The container is told even if the copy has the group already: a crash
    may have come between.
    """
    known = kept_control(paths)
    if text := with_group(known, group):
        write_file(paths.control, text)
    write_control(containers, container, owner, text or known)
    return text or known


def led(worker: WorkerId, paths: WorkerPaths) -> bool:
    """Whether its files are those of the job: it is, or was at its end, the first of its group."""
    return leads(kept_control(paths), worker.rank)


def kept_control(paths: WorkerPaths) -> bytes:
    """What the service last wrote."""
    with suppress(FileNotFoundError, ValueError):
        return read_control(paths.control)
    return b""
