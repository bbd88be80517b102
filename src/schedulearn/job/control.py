"""The control file: the present limits of this worker, and the members of its group. The service writes it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FRESH = 1.0  # seconds: a file changed so lately may have changed again without a sign of it
_FIRST = 2.0  # seconds for a file that was never read to appear


@dataclass(frozen=True)
class Control:
    cpus: float | None = None  # the limit in cores; None: no limit
    threads: int | None = None  # how many make sense under it; None: not known
    memory: int | None = None  # the limit in bytes
    generation: int = 0  # grows with every change of the members
    members: tuple[int, ...] = (0,)  # the ranks of the workers that belong to the group, ascending

    batches: tuple[int, int] | None = None  # the batch sizes that the scheduler may choose from; None: it does not
    batch: int | None = None  # that it has chosen, of all workers together

    @property
    def world_size(self) -> int:
        return len(self.members)

    def index(self, rank: int) -> int | None:
        """The place in the group of the worker with that rank; None: it has to leave."""
        return self.members.index(rank) if rank in self.members else None


class ControlFile:
    """Cheap to ask often: what the file says is read again only when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Replaced as a whole, so that threads may ask at the same time.
        self._known: tuple[tuple[int, ...], Control] | None = None

    def read(self) -> Control:
        """What the file says. While it is missing or half written: what it said last, or the defaults."""
        known = self._look() or self._known
        until = time.monotonic() + _FIRST
        while known is None and time.monotonic() < until:
            time.sleep(0.01)
            known = self._look()
        # A file that never comes is not waited for again.
        self._known = known or ((), Control(members=tuple(range(int(os.environ.get("WORLD_SIZE") or 1)))))
        return self._known[1]

    def _look(self) -> tuple[tuple[int, ...], Control] | None:
        try:
            found = self._path.stat()
            sign = (found.st_ctime_ns, found.st_ino, found.st_size)
            # Two changes within one tick of the file system's clock look like one.
            settled = abs(time.time() - found.st_ctime) > _FRESH
            if settled and self._known is not None and self._known[0] == sign:
                return self._known
            return sign, parse(json.loads(self._path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError):
            return None


def parse(data: Any) -> Control:
    """A control file without members is one of a job whose workers do not come and go."""
    members = data.get("members") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(members, (list, type(None))):
        raise ValueError("not the content of a control file")
    return Control(
        cpus=_maybe(float, data.get("cpus")),
        threads=_maybe(int, data.get("threads")),
        memory=_maybe(int, data.get("memory")),
        generation=int(data.get("generation", 0)),
        members=tuple(range(int(data.get("world_size", 1))) if members is None else sorted(map(int, members))),
        batches=_maybe(_pair, data.get("batches")),
        batch=_maybe(int, data.get("batch")),
    )


def _pair(value: Any) -> tuple[int, int]:
    least, most = map(int, value)
    return least, most


def _maybe(kind: Any, value: Any) -> Any:
    return None if value is None else kind(value)


_file: tuple[str, ControlFile] | None = None


def read_control() -> Control:
    """The present limits and members. Outside of Schedulearn: no limits, and one worker."""
    global _file
    path = os.environ.get("SCHEDULEARN_CONTROL")
    if not path:
        return Control()
    if _file is None or _file[0] != path:
        _file = path, ControlFile(Path(path))
    return _file[1].read()
