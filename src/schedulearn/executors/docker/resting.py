"""Which files of a checkpoint are whole now, as far as looks at them from outside can tell.

- Files to which nothing was written for two seconds rest. Usually all are waited for, so that files which belong
  together are fetched together.
- What is still written to after three looks in a row is restless (a log, saves that come all the time): from then on
  the others do not wait for it. Its last version that was whole stays. If its size is the same at each look, it is
  written anew again and again, most likely beside it and then renamed: it is taken if it did not change while it was
  read.
- Saves of `schedulearn.job` get their names when they are whole, and event files only grow: both are taken at any time.
- Hidden names are saves that are not whole yet: they stay where they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedulearn.archive.reader import FILE

QUIET = 2.0  # seconds
PATIENCE = 3  # looks at which something was being written
_SAVE = re.compile(r"save-\d{8,}/")
_ONLY_GROWS = re.compile(r"(.*/)?events\.out\.tfevents\.[^/]*")


class Seen(NamedTuple):
    """What a look shows of one thing. Of folders and links the last two say nothing."""

    kind: str
    mode: int
    target: str = ""  # of a link, as the engine follows it
    size: int = 0
    changed: int = 0  # when it was written to, in nanoseconds, by the clock of its machine


class Taken(NamedTuple):
    """What can be fetched now."""

    whole: Mapping[str, Seen]
    hasty: frozenset[str]  # those of them that are only whole if they stay as they are while they are read
    left: frozenset[str]  # files that are being written: an earlier version of theirs may stay


@dataclass(slots=True)
class Rest:
    """Remembers what the looks at one folder have shown."""

    _waited: int = 0
    _restless: set[str] = field(default_factory=set)
    _sizes: dict[str, int] = field(default_factory=dict)  # of those that were being written at the last look

    def take(self, found: Mapping[str, Seen], now: float) -> Taken | None:
        """None: some files are just being written, and the others wait for them."""
        busy = {path for path, seen in found.items() if _is_written(path, seen, now)}
        sizes, self._sizes = self._sizes, {path: found[path].size for path in busy}
        self._restless &= busy
        if busy - self._restless:
            self._waited += 1
            if self._waited < PATIENCE:
                return None
            self._restless |= busy
        self._waited = 0
        hasty = frozenset(path for path in busy if found[path].size == sizes.get(path))
        whole = {path: seen for path, seen in found.items() if path not in busy or path in hasty}
        return Taken(whole, hasty, frozenset(busy - hasty))


def _is_written(path: str, seen: Seen, now: float) -> bool:
    recent = seen.kind is FILE and now - seen.changed / 1e9 < QUIET
    return recent and not only_grows(path) and not _SAVE.match(path)


def only_grows(path: str) -> bool:
    """Whether any beginning of this file is good."""
    return bool(_ONLY_GROWS.fullmatch(path))


def is_hidden(path: str) -> bool:
    return path.startswith(".")
