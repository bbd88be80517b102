"""Checkpoints fetched while their containers run, so that a server that is lost takes little progress with it.

Only what has changed is sent; the rest is linked.
"""

import logging
import stat
import tarfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedulearn.archive.pack import END, header, header_bytes
from schedulearn.archive.reader import FILE, FOLDER, LINK, Member, inside
from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.ports import Clock
from schedulearn.executors.common.archive import TooMuch, moved, unpack
from schedulearn.executors.common.folders import StaleAttempt, commit, note_fetched
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.docker.calls import NotThere
from schedulearn.executors.docker.containers import FOLDER_BIT, SPECIAL_BITS, Containers, is_link, nanoseconds_of
from schedulearn.executors.docker.ending import may_be_older, owner_of, user_of
from schedulearn.executors.docker.resting import Rest, Seen, Taken, is_hidden, only_grows
from schedulearn.executors.docker.rules import CHECKPOINT

log = logging.getLogger(__name__)
EVERY = 10.0  # seconds, at the least
SHARE = 0.05  # of the time is spent with fetching, at the most
TRIES = 3  # in a row, where files change while they are read
MOST_FILES = 20_000  # each is asked for; a folder with more is only fetched at the end
_CALL = 8 << 20  # bytes that could be sent in the time that it takes to ask for one more file
_NAME = CHECKPOINT[1:]


class Changing(Exception):
    """What was to be fetched has changed or gone meanwhile: look again."""


@dataclass(slots=True)
class Known:
    """What is known of the checkpoint of a worker that runs, and how much of it the service has."""

    rest: Rest = field(default_factory=Rest)
    files: dict[str, Seen] | None = None  # as they were when they were fetched; None: look what the service has
    last: Mapping[str, Seen] = field(default_factory=dict)  # what was dealt with at last
    due: float = field(default_factory=lambda: time.monotonic() + EVERY)
    busy: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False


class LiveCheckpoints:
    """Of the containers of one engine. Only whole files are fetched, and only what has changed."""

    def __init__(self, containers: Containers, clock: Clock) -> None:
        self._containers, self._clock = containers, clock
        self._known: dict[WorkerId, Known] = {}
        self._lock = threading.Lock()

    def due(self, worker: WorkerId) -> bool:
        with self._lock:
            return self._known.setdefault(worker, Known()).due <= time.monotonic()

    def fetch(self, worker: WorkerId, paths: WorkerPaths) -> None:
        known = self._known.get(worker)
        if known is None:
            return
        with known.busy:
            if not known.over and known.due <= time.monotonic():
                began = time.monotonic()
                try:
                    self._fetch(worker, paths, known)
                except (OSError, ExecutorError) as error:
                    log.info("the checkpoint of worker %s is not fetched now: %s", worker, error)
                took = time.monotonic() - began
                known.due = time.monotonic() + max(EVERY, took / SHARE)

    def finish(self, worker: WorkerId) -> None:
        """From now on only the end of the worker fetches anything. Waits for a fetch that is under way."""
        with self._lock:
            known = self._known.setdefault(worker, Known())
        with known.busy:
            known.over = True

    def forget(self, worker: WorkerId) -> None:
        with self._lock:
            self._known.pop(worker, None)

    def _fetch(self, worker: WorkerId, paths: WorkerPaths, known: Known) -> None:
        for _ in range(TRIES):
            try:
                if self.fetch_once(worker, paths, known):
                    note_fetched(paths.job, self._clock.now())
                return
            except Changing as why:
                log.debug("the checkpoint of worker %s is looked at again: %s", worker, why)

    def fetch_once(self, worker: WorkerId, paths: WorkerPaths, known: Known) -> bool:
        """Whether the job has a newer checkpoint now. Changing: try again, at once if you like."""
        container, now = self._containers.name(worker), self._containers.now()
        taken = known.rest.take(self._look(container), now)
        if taken is None or taken.whole == known.last or not any(s.kind is not FOLDER for s in taken.whole.values()):
            return False
        transfer = _Transfer(self._containers, container, paths, taken, _files_of(known, paths.job.checkpoint))
        try:
            done = commit(worker, paths.job, paths.job.checkpoint, transfer.fill, keep_newer=may_be_older(paths))
        except StaleAttempt:
            return False
        known.last, known.files = taken.whole, transfer.files if done else {}
        return done

    def _look(self, container: str) -> dict[str, Seen]:
        """All that was ever put into the folder since the container was made, and is still there."""
        below = f"{CHECKPOINT}/"
        names = [path.removeprefix(below) for path in self._containers.changed(container) if path.startswith(below)]
        if len(names) > MOST_FILES:
            raise TooMuch(f"more than {MOST_FILES:,} files are only fetched at the end")
        found = {}
        for name in names:
            if not is_hidden(name) and (seen := _seen(self._containers.look_at(container, below + name, strict=True))):
                found[name] = seen
        return found


class _Transfer:
    """What goes into the new folder, and how much of it was fetched before."""

    def __init__(
        self, containers: Containers, container: str, paths: WorkerPaths, taken: Taken, known: dict[str, Seen]
    ) -> None:
        self._containers, self._container, self._paths = containers, container, paths
        self._taken, self._known = taken, known
        self.files: dict[str, Seen] = {}  # that are in the new folder

    def fill(self, folder: Path) -> None:
        files = {path: seen for path, seen in self._taken.whole.items() if seen.kind is not FOLDER}
        new = {path: seen for path, seen in files.items() if self._known.get(path) != seen}
        one_by_one = sum(seen.size for seen in new.values()) + _CALL * len(new)
        if one_by_one > sum(seen.size for seen in files.values()) + _CALL:
            new = files  # all at once is quicker
            chunks = self._all(new)
        else:
            chunks = self._each(new)
        unpack(self._archive(chunks), folder, owner_of(self._paths))
        gone = self._drop_changed(new, folder)
        self.files = {path: seen for path, seen in new.items() if path not in gone}
        before = {path: self._known[path] for path in files.keys() - new.keys()}
        earlier = {path: self._known[path] for path in self._taken.left | gone if path in self._known}
        self.files |= _linked(self._paths.job.checkpoint, folder, before | earlier)
        for path in before.keys() - self.files.keys():
            del self._known[path]
        if not self._known.keys() >= before.keys():
            raise Changing("files that were fetched before are not there any more")

    def _archive(self, files: Iterable[bytes]) -> Iterator[bytes]:
        ids = user_of(self._paths) or (0, 0)
        yield header_bytes(_folder(_NAME, 0o700, ids))
        for path, seen in sorted(self._taken.whole.items()):
            if seen.kind is FOLDER:
                yield header_bytes(_folder(f"{_NAME}/{path}", seen.mode, ids))
        yield from files
        yield END

    def _each(self, wanted: Collection[str]) -> Iterator[bytes]:
        for path in sorted(wanted):
            try:
                chunks = self._containers.get(self._container, f"{CHECKPOINT}/{path}")
            except NotThere:
                continue  # it is found to be gone afterwards
            yield from moved(chunks, f"{_NAME}/{path}", user_of(self._paths), _alone, last=False)

    def _all(self, wanted: Collection[str]) -> Iterator[bytes]:
        def is_wanted(member: Member) -> bool:
            return member.kind is not FOLDER and "/".join(inside(member.name)[1:]) in wanted

        chunks = self._containers.get(self._container, CHECKPOINT)
        return moved(chunks, _NAME, user_of(self._paths), is_wanted, last=False)

    def _drop_changed(self, fetched: Mapping[str, Seen], folder: Path) -> frozenset[str]:
        """Files that were written to while they were read are not kept; Changing if they seemed to rest."""
        changed = set()
        for path, seen in fetched.items():
            if only_grows(path):
                continue
            now = self._containers.look_at(self._container, f"{CHECKPOINT}/{path}", strict=True)
            if _seen(now) != seen:
                (folder / path).unlink(missing_ok=True)
                changed.add(path)
        if changed - self._taken.hasty:
            raise Changing("it is being written")
        return frozenset(changed)


def _alone(member: Member) -> bool:
    """What was asked for, unless it has become a folder."""
    return member.kind is not FOLDER and len(inside(member.name)) == 1


def _folder(name: str, mode: int, ids: tuple[int, int]) -> tarfile.TarInfo:
    told = header(name, mode, ids)
    told.type = tarfile.DIRTYPE
    return told


def _seen(told: Mapping[str, Any] | None) -> Seen | None:
    """None: it is not there, or nothing that is kept."""
    if told is None:
        return None
    bits, mode = told["mode"], told["mode"] & 0o777
    if is_link(told):
        return Seen(LINK, 0o777, told["linkTarget"])
    if bits & FOLDER_BIT:
        return Seen(FOLDER, mode)
    return None if bits & SPECIAL_BITS else Seen(FILE, mode, "", told["size"], nanoseconds_of(told["mtime"]))


def _files_of(known: Known, folder: Path) -> dict[str, Seen]:
    """What the service has, as it would look in the container. What was put there has whole seconds."""
    if known.files is None:
        known.files = {}
        with Tree(folder) as tree:
            for found in tree.below(strict=False):
                info = found.info
                if found.is_file and info.st_mtime_ns % 10**9 == 0:
                    seen = Seen(FILE, stat.S_IMODE(info.st_mode) & 0o777, "", info.st_size, info.st_mtime_ns)
                    known.files["/".join(found.parts)] = seen
    return known.files


def _linked(old: Path, new: Path, wanted: Mapping[str, Seen]) -> dict[str, Seen]:
    """Give files of one folder names in another, too; those for which that was possible."""
    done = {}
    with Tree(old) as tree:
        for path, seen in wanted.items():
            for found in tree.at(tuple(path.split("/"))):
                if not found.is_folder and found.link(new / path):
                    done[path] = seen
                break
    return done
