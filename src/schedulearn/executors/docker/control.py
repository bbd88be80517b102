"""The control file in a container, and what the service keeps of it."""

from contextlib import suppress

from schedulearn.domain.group import Group
from schedulearn.domain.ids import WorkerId
from schedulearn.executors.common.archive import Entry, pack, read_file
from schedulearn.executors.common.control import leads, with_group
from schedulearn.executors.common.paths import WorkerPaths, write_file
from schedulearn.executors.docker.calls import Refused
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.options import PLACES

_LARGEST = 1 << 16  # bytes: whatever a job makes of these files


def read_control(containers: Containers, container: str) -> bytes:
    return read_small(containers, container, PLACES.control)


def read_small(containers: Containers, container: str, path: str) -> bytes:
    """b"" if the job has removed it, or made something else of it."""
    with suppress(Refused):
        return read_file(containers.get(container, path), _LARGEST)
    return b""


def write_control(containers: Containers, container: str, owner: tuple[int, int], text: bytes) -> None:
    containers.put(container, pack([Entry(PLACES.control[1:], content=text, mode=0o644)], owner))


def regroup(
    containers: Containers, paths: WorkerPaths, container: str, owner: tuple[int, int], group: Group
) -> tuple[bytes, bytes | None]:
    """Tell it of the group; what its control file said before, and says now: None if it knows of a newer one.

    The copy here says at its end whether it led.
    """
    if text := with_group(_kept(paths), group):
        write_file(paths.control, text)
    before = read_control(containers, container)
    if after := with_group(before, group):
        write_control(containers, container, owner, after)
    return before, after


def led(worker: WorkerId, paths: WorkerPaths) -> bool:
    """Whether its files are those of the job: it is, or was at its end, the first of its group."""
    return leads(_kept(paths), worker.rank)


def _kept(paths: WorkerPaths) -> bytes:
    with suppress(FileNotFoundError):
        return paths.control.read_bytes()
    return b""
