"""A hostile user beside the service: swaps folders for links, as fast as it can, for as long as a test runs."""

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

USER = 64_321  # a user without an entry in the system's list


@contextmanager
def swapping(folder: Path, swap: Callable[[], None], user: int = USER) -> Iterator[None]:
    """`swap` runs again and again in a process of that user, in that folder; it has run when this begins."""
    rounds = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        _attack(folder, swap, user, rounds)
    try:
        while not struct.unpack("q", rounds[:8])[0]:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the attacker gave up"
            time.sleep(0.001)
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the attacker gave up"
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        rounds.close()


def _attack(folder: Path, swap: Callable[[], None], user: int, rounds: mmap.mmap) -> None:
    """In the forked process; never returns."""
    try:
        os.chdir(folder)  # as root: the folders of the tests are closed to others
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        count = 0
        while True:
            with suppress(OSError):
                swap()
            count += 1
            rounds[:8] = struct.pack("q", count)
    finally:
        os._exit(1)


def swap_for_links(names: Sequence[str], target: Path) -> Callable[[], None]:
    """All of these folders, and back: whoever looks at one twice may well see two different things."""
    places = [(Path(name), Path(f"{name}.aside")) for name in names]

    def swap() -> None:
        for place, aside in places:
            with suppress(OSError):
                place.rename(aside)
                place.symlink_to(target)
        for place, aside in places:
            with suppress(OSError):
                place.unlink()
                aside.rename(place)

    return swap
