"""The end of a container: its files fetched, its end written down, then it is removed."""

import errno
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from schedulearn.archive.confined import Owner
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock
from schedulearn.executors.common.archive import TooMuch, read_file, unpack
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.common.control import led
from schedulearn.executors.common.endings import End, read_end, write_end
from schedulearn.executors.common.folders import StaleAttempt, commit, is_stale, note_fetched
from schedulearn.executors.common.paths import WorkerPaths, read_number, read_orders, write_file
from schedulearn.executors.docker.calls import NotThere, Refused
from schedulearn.executors.docker.containers import Containers, State
from schedulearn.executors.docker.options import PLACES
from schedulearn.executors.docker.rules import CHECKPOINT, WORK

REMOVED = "its container was removed"
_SIGNAL = 128  # what a shell and an init add to the signal that killed their program
_LAST_SIGNAL = 64
_NOBODY_SAW = 255  # what the engine says of a container that was gone when the engine began
_TOLD_TO_END = (_SIGNAL + signal.SIGTERM, _SIGNAL + signal.SIGKILL)
_YOUNG = 30.0  # seconds: an engine gives a container half of that between the two signals
_LARGEST_SPOOL = 20 << 20  # bytes; the library keeps it below 16 MiB


def owner_here(ids: tuple[int, int]) -> Owner:
    """Who owns a job's files on the service's side: only root can give them away."""
    return ids if os.geteuid() == 0 else None


def outcome_of(state: State, memory: int | None) -> Outcome:
    """As for a process. An init that saw its program killed ends with 128 and the signal."""
    code = state.exit_code
    number = code - _SIGNAL if _SIGNAL < code <= _SIGNAL + _LAST_SIGNAL else None
    if state.out_of_memory and code != 0:
        return Outcome(Ending.OUT_OF_MEMORY, None if number else code, number, memory)
    if number:
        return Outcome(Ending.SIGNALLED, signal=number)
    return Outcome(Ending.EXITED, exit_code=code)


class Patience:
    """How often files that cannot be fetched are tried again: their container goes once it is over."""

    TRIES = 3
    FULL_DISK = 600.0  # seconds for an administrator to make room on the service's disk

    def __init__(self) -> None:
        self._tries = 0
        self._until = time.monotonic() + self.FULL_DISK

    def lost(self, end: End, error: OSError | ExecutorError) -> End:
        """The end of a worker whose files are given up; raises the error as long as they are not."""
        self._tries += 1
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        again = time.monotonic() < self._until if full else self._tries < self.TRIES
        if isinstance(error, Unreachable) or (again and not isinstance(error, TooMuch)):
            raise error
        detail = f"{end.outcome.detail}; " if end.outcome.detail else ""
        return replace(end, outcome=replace(end.outcome, detail=f"{detail}its files could not be fetched: {error}"))


class Ender:
    """Writes down how a container ended, once its files are safe."""

    def __init__(self, containers: Containers, clock: Clock, with_checkpoint: bool) -> None:
        """Without `with_checkpoint` checkpoints lie on storage that all servers share."""
        self._containers, self._clock, self._with_checkpoint = containers, clock, with_checkpoint

    def collect(
        self, worker: WorkerId, paths: WorkerPaths, state: State | None, silent: bool, patience: "Patience"
    ) -> End:
        """`state` is None if the container is gone; `silent` says that the engine did not answer meanwhile."""
        end = read_end(paths)
        if end is None:
            end = self._end_of(paths, state, silent)
            if state:
                try:
                    self.fetch_all(worker, paths, state.id)
                except (OSError, ExecutorError) as error:
                    end = patience.lost(end, error)
            write_end(paths, end)
        if state:
            self._containers.remove(state.id)
        return end

    def fetch_all(self, worker: WorkerId, paths: WorkerPaths, container: str) -> None:
        """Bring its files to the service, as long as its attempt is the newest.

        The workers of one attempt have a copy each; what the first of the group has is kept.
        """
        if is_stale(worker, paths.job):
            return
        with suppress(StaleAttempt):
            self._fetch_spool(paths, container)
            if led(worker, paths):
                self._replace(worker, paths, paths.job.run, container, WORK)
                if self._with_checkpoint:
                    newer = may_be_older(paths)
                    if self._replace(worker, paths, paths.job.checkpoint, container, CHECKPOINT, newer):
                        note_fetched(paths.job, self._clock.now())

    def _replace(
        self, worker: WorkerId, paths: WorkerPaths, folder: Path, container: str, inside: str, keep_newer: bool = False
    ) -> bool:
        try:
            chunks = self._containers.get(container, inside)
        except NotThere:  # the job removed the folder itself: what was kept stays
            return False
        owner, user = owner_of(paths), user_of(paths)
        return commit(worker, paths.job, folder, lambda fresh: unpack(chunks, fresh, owner, reader=user), keep_newer)

    def _fetch_spool(self, paths: WorkerPaths, container: str) -> None:
        """Reports that the job could not deliver."""
        try:
            spool = read_file(self._containers.get(container, PLACES.spool), _LARGEST_SPOOL)
        except Refused:
            return
        if spool:
            write_file(paths.spool, spool, 0o600, owner_of(paths))

    def _end_of(self, paths: WorkerPaths, state: State | None, silent: bool) -> End:
        now = self._clock.now()
        if state is None:
            return End(Outcome(Ending.LOST, detail=REMOVED), now)
        began = read_number(paths.started, "at")  # by the service's clock: the server's may be wrong
        at = min(now, (now if began is None else began) + state.seconds)
        if self._was_lost(state, silent):
            return End(Outcome(Ending.LOST, detail="it was ended by a stop or restart of its server"), at)
        return End(outcome_of(state, read_orders(paths).get("memory")), at)

    def _was_lost(self, state: State, silent: bool) -> bool:
        """An engine that is stopped takes its containers with it, however politely; a machine does so without a word.

        What the program's exit code then says is not how the training went.
        """
        unclean = state.exit_code == _NOBODY_SAW or _taken_along(state)
        if not (silent or unclean) or (self._containers.keeps_running() and not unclean):
            return False
        return not self._containers.saw_end(state)


def _taken_along(state: State) -> bool:
    """An engine that is stopped while it starts a container may end that, too, though it keeps those that run."""
    return state.exit_code in _TOLD_TO_END and state.seconds < _YOUNG and not state.out_of_memory


def may_be_older(paths: WorkerPaths) -> bool:
    """Whether its checkpoint may be older than the job's: who leads now has its own copy, of when it was started."""
    return bool(read_orders(paths).get("several"))


def user_of(paths: WorkerPaths) -> Owner:
    """Who it runs as in its container; None if that was not written down."""
    orders = read_orders(paths)
    return (orders["uid"], orders["gid"]) if "uid" in orders else None


def owner_of(paths: WorkerPaths) -> Owner:
    """Who owns the files of a worker that was started before, on the service's side."""
    ids = user_of(paths)
    return owner_here(ids) if ids else None
