"""Checkpoints on storage that every server has at the same path: nothing is copied over the network.

Each attempt has a folder of its own, filled from the one before. A stale attempt on a server that was lost may go on
writing, but only into its own.
"""

import os
import threading
from pathlib import Path

from schedulearn.archive.confined import give_empty
from schedulearn.archive.remove import remove_tree
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.archive import Entry, pack, unpack
from schedulearn.executors.common.folders import fresh_beside, has_files, make_folder
from schedulearn.executors.docker.mounts import Bind
from schedulearn.executors.docker.rules import CHECKPOINT

_RENAMING = threading.Lock()  # a folder that is empty could be replaced under a worker that has it mounted


class SharedCheckpoints:
    """Below `root` there is a folder for each service, job and attempt."""

    def __init__(self, root: Path, instance: str) -> None:
        self._root = root / instance

    def bind(self, worker: WorkerId, ids: tuple[int, int]) -> Bind:
        """The attempt's own folder, ready to be mounted. All its workers have the same."""
        own = self._attempts(worker.job) / str(worker.attempt)
        if not own.exists():
            self._fill(worker, own, ids)
        return Bind(str(own), CHECKPOINT, read_only=False)

    def has_checkpoint(self, job: JobId) -> bool:
        newest = self._newest(job, below=1 << 62)
        return newest is not None and has_files(newest)

    def forget(self, job: JobId) -> None:
        remove_tree(self._attempts(job))

    def _fill(self, worker: WorkerId, own: Path, ids: tuple[int, int]) -> None:
        owner = ids if os.geteuid() == 0 else None
        if owner is None and ids != (os.geteuid(), os.getegid()):
            raise ExecutorError("shared checkpoints need a service that runs as root, or jobs that run as its own user")
        make_folder(self._root, 0o711)
        make_folder(own.parent, 0o711)
        before = self._newest(worker.job, below=worker.attempt)
        with fresh_beside(own) as fresh:
            give_empty(fresh, owner)
            if before:  # whose attempt may still be at work in it
                unpack(pack([Entry("checkpoint", before)], ids), fresh, owner)
            with _RENAMING:
                if not own.exists():  # else another worker of this attempt was faster
                    fresh.rename(own)

    def _newest(self, job: JobId, below: int) -> Path | None:
        try:
            numbers = [int(p.name) for p in self._attempts(job).iterdir() if p.name.isdigit()]
        except FileNotFoundError:
            return None
        older = [number for number in numbers if number < below]
        return self._attempts(job) / str(max(older)) if older else None

    def _attempts(self, job: JobId) -> Path:
        return self._root / str(job)
