"""Checkpoints: whole or not there, the newest two kept, and never from an attempt that is over.

    save-00000007/saved.json     what belongs to it: step, attempt, size and checksum of every file
    save-00000007/state.pickle   the state, or whatever files the program wrote
    .saving-17.2.0-x3k9/         one that is being written, or what a killed program left of it

A save is written beside the others, brought to the disk, and gets its name at the very end, by a rename. The name is
the next number. Two processes cannot take the same one, so the later one looks again at which saved last: that is the
fence. It needs no lock, which a killed or suspended process could hold.
"""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import pickle
import re
import shutil
import tempfile
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

from schedulearn.job.data import at_least
from schedulearn.job.identity import checkpoint_dir, info, place

KEPT = 2
_META, _STATE = "saved.json", "state.pickle"
_NAME = re.compile(r"save-(\d{8,})")
_UNFINISHED = re.compile(r"\.(?:saving|old)-(\d+)\.(\d+)\.(\d+)-.*")
_PIECE = 1024**2  # bytes
_WRITERS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_log = logging.getLogger("schedulearn.job")
_saving = threading.RLock()
_unfinished: set[Path] = set()  # of this process: a signal handler may save while the program is just doing so


class Fenced(RuntimeError):
    """A newer attempt of the job has saved: this process is a left-over, and should end."""


class Saved(NamedTuple):
    folder: Path
    step: int | None


class _Owner(NamedTuple):
    """Which attempt saves. The later job wins where two were given the same folder, then the later attempt."""

    job: int = 0
    attempt: int = 0
    rank: int = 0


def save(state: Any, step: SupportsIndex | None = None, *, folder: str | Path | None = None) -> None:
    """Save the state of the training: any object that can be pickled, or a function that writes files.

    A function is called with an empty folder to write into. The save is atomic: a crash in the middle of it leaves the
    one before. The newest two are kept. Only the first worker saves; the others return at once. `Fenced` is raised in
    a process of an older attempt than the one that saved last.

    Outside of Schedulearn it is saved in `folder`; without one nothing happens.
    """
    number = None if step is None else at_least(0, "step", step)
    root = checkpoint_dir(folder)
    if root is None or place().rank != 0:
        return
    # Other objects may be callable too, a model for example: they are states.
    write = state if isinstance(state, _WRITERS) else functools.partial(_pickle, state)
    with _saving:
        _Folder(root).save(write, number)


def restore(default: Any = None, *, folder: str | Path | None = None) -> Any:
    """The newest state that is whole, or `default`. Where a function wrote files: the path of their folder."""
    saved = latest(folder=folder)
    if saved is None:
        return default
    file = saved.folder / _STATE
    if not file.exists():
        return saved.folder
    with open(file, "rb") as stream:
        return pickle.load(stream)


def latest(*, folder: str | Path | None = None) -> Saved | None:
    """The folder of the newest save that is whole, and its step; None if there is none."""
    root = checkpoint_dir(folder)
    return _Folder(root).newest() if root is not None else None


class _Folder:
    """The folder of a job's checkpoints. Files that others put there are left alone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        found = info()
        self._owner = _Owner(found.job, found.attempt, place().rank or 0) if found else _Owner()

    def newest(self) -> Saved | None:
        for number in sorted(self._numbers(), reverse=True):
            path = self._path(number)
            try:
                meta = json.loads((path / _META).read_bytes())
                if all(_fingerprint(path / name) == mark for name, mark in meta["files"].items()):
                    return Saved(path, meta["step"])
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                pass
            _log.warning("the checkpoint %s is damaged and not used", path)
        return None

    def save(self, write: Callable[[Path], object], step: int | None) -> None:
        self._check_fence()
        self._sweep()
        temporary = self._temporary("saving")
        _unfinished.add(temporary)
        try:
            write(temporary)
            self._seal(temporary, step)
            path = self._commit(temporary)
        except FileNotFoundError:
            if temporary.exists():
                raise
            raise Fenced("a newer attempt removed what this process was saving") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            _unfinished.discard(temporary)
        self._check_fence(path)
        self._prune()

    def _seal(self, folder: Path, step: int | None) -> None:
        """Bring everything to the disk, with a list of what there is."""
        files = {str(file.relative_to(folder)): _fingerprint(file, sync=True) for file in _files(folder)}
        attempt = [self._owner.job, self._owner.attempt]
        meta = {"step": step, "attempt": attempt, "at": time.time(), "files": files}
        with open(folder / _META, "w", encoding="utf-8") as stream:
            json.dump(meta, stream)
            stream.flush()
            os.fsync(stream.fileno())
        for path, _, _ in os.walk(folder):
            _sync_folder(path)

    def _commit(self, temporary: Path) -> Path:
        """Give it its name. If the name is taken, the fence is looked at again."""
        while True:
            path = self._path(max(self._numbers(), default=0) + 1)
            self._check_fence()
            try:
                temporary.rename(path)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            else:
                _sync_folder(self._root)
                return path

    def _check_fence(self, mine: Path | None = None) -> None:
        """Raise if a newer attempt has saved; `mine` got its name too late then, and goes again."""
        if self._owner == _Owner():
            return  # the program is run by hand
        newest = max((self._saver(number) for number in self._numbers()), default=(0, 0))
        if newest > self._owner[:2]:
            if mine:
                self._remove(mine)
            raise Fenced("attempt {}.{} has saved: this one, {}.{}, is over".format(*newest, *self._owner[:2]))

    def _saver(self, number: int) -> tuple[int, int]:
        """The job and the attempt of a save."""
        try:
            job, attempt = json.loads((self._path(number) / _META).read_bytes())["attempt"]
            return int(job), int(attempt)
        except (OSError, ValueError, TypeError, KeyError):
            return 0, 0

    def _prune(self) -> None:
        for number in sorted(self._numbers())[:-KEPT]:
            self._remove(self._path(number))

    def _remove(self, path: Path) -> None:
        """At once, so that none is found half."""
        with suppress(FileNotFoundError):  # another process was quicker
            aside = path.rename(self._temporary("old") / path.name)
            shutil.rmtree(aside.parent, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what killed processes left; not what another worker of this attempt, or a newer one, may need."""
        for path in set(self._root.glob(".*")) - _unfinished:
            if match := _UNFINISHED.fullmatch(path.name):
                owner = _Owner(*map(int, match.groups()))
                if owner == self._owner or owner[:2] < self._owner[:2]:
                    shutil.rmtree(path, ignore_errors=True)

    def _temporary(self, kind: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f".{kind}-{'.'.join(map(str, self._owner))}-", dir=self._root))

    def _numbers(self) -> list[int]:
        return [int(match[1]) for path in self._root.iterdir() if (match := _NAME.fullmatch(path.name))]

    def _path(self, number: int) -> Path:
        return self._root / f"save-{number:08d}"


def _pickle(state: object, folder: Path) -> None:
    with open(folder / _STATE, "wb") as stream:
        pickle.dump(state, stream, pickle.HIGHEST_PROTOCOL)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _fingerprint(file: Path, sync: bool = False) -> list[int]:
    """Size and checksum."""
    size = checksum = 0
    with open(file, "rb") as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
        if sync:
            os.fsync(stream.fileno())
    return [size, checksum]


def _sync_folder(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
