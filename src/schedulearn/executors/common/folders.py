"""A job's own folders on the service's side: which attempt may change them, how they are replaced, how they go."""

import logging
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schedulearn.archive.confined import Owner, give_empty, unpack_snapshot
from schedulearn.archive.extract import OPEN_FOLDER
from schedulearn.archive.reader import Damaged, Refused, TooLarge
from schedulearn.archive.remove import remove_tree
from schedulearn.archive.walk import Tree, any_name
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, locked, read_number, write_json

log = logging.getLogger(__name__)
_MOST_SNAPSHOT = 1 << 40  # bytes: how large a project may be was asked when it was uploaded


class StaleAttempt(ExecutorError):
    """A newer attempt of the job has begun: this one may change nothing any more."""


def make_worker_folder(paths: WorkerPaths) -> None:
    """Down to the worker's own folder. A job with its own user must be able to pass, but not to look around."""
    job = paths.job
    for folder in (job.folder.parent, job.folder, job.attempts, paths.folder.parent, paths.folder):
        make_folder(folder, 0o711)


def make_folder(path: Path, mode: int, owner: Owner = None) -> None:
    path.mkdir(exist_ok=True, parents=True)
    folder = os.open(path, OPEN_FOLDER)
    try:
        os.fchmod(folder, mode)  # mkdir's own mode is cut down by the umask
        if owner:
            os.fchown(folder, *owner)
    finally:
        os.close(folder)


def prepare_job_folders(worker: WorkerId, job: JobPaths, snapshot: Path | None, owner: Owner) -> None:
    """The run and the checkpoint folder of an attempt that begins. From now on older attempts change nothing."""
    with locked(job.lock):
        _advance_fence(worker, job)
        for folder in (job.run, job.checkpoint):
            settle(folder)
            for half in job.folder.glob(f"{folder.name}.tmp-*"):  # of a service that was killed
                remove_tree(half)
        if not job.run.exists():
            _fill_run_folder(job.run, snapshot, owner)
        if not job.checkpoint.exists():
            make_folder(job.checkpoint, 0o700, owner)


def _fill_run_folder(run: Path, snapshot: Path | None, owner: Owner) -> None:
    """From the snapshot of a user's project, as that user, where no other can come to it; then renamed, so that a run
    folder is always whole. The caller holds the job's lock.
    """
    with fresh_beside(run) as fresh:
        give_empty(fresh, owner)
        if snapshot is not None:
            _unpack(snapshot, fresh, owner)
        fresh.rename(run)


@contextmanager
def fresh_beside(folder: Path) -> Iterator[Path]:
    """An empty folder to be filled and then renamed, in one that only the service may enter; both go at the end."""
    private = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
    try:
        fresh = private / "new"
        fresh.mkdir(mode=0o700)
        yield fresh
    finally:
        remove_tree(private)


def _unpack(snapshot: Path, folder: Path, owner: Owner) -> None:
    try:
        unpack_snapshot(snapshot, folder, owner, _MOST_SNAPSHOT)
    except FileNotFoundError as error:
        if not snapshot.exists():
            raise ExecutorError("the snapshot of the project is missing") from error  # others read this: no hash
        raise
    except (Refused, TooLarge) as error:
        raise ExecutorError(f"the snapshot is refused: {error}") from error
    except Damaged as error:
        raise ExecutorError(f"the snapshot is damaged: {error}") from error


def newest_attempt(job: JobPaths) -> int:
    """The number of the newest attempt that began; 0 if none did."""
    return int(read_number(job.fence, "attempt") or 0)


def is_stale(worker: WorkerId, job: JobPaths) -> bool:
    return worker.attempt < newest_attempt(job)


def commit(
    worker: WorkerId, job: JobPaths, folder: Path, fill: Callable[[Path], object], keep_newer: bool = False
) -> bool:
    """Replace one of a job's folders as a whole; StaleAttempt, and nothing changes, if a newer attempt has begun.

    `fill` puts the content into a new folder beside it. A crash at any point leaves the old content or the new.
    `keep_newer`: content that is older than the present one is dropped, and False returned.
    """
    with fresh_beside(folder) as fresh:
        fill(fresh)
        with locked(job.lock):
            if is_stale(worker, job):
                raise StaleAttempt(f"attempt {worker.of} is not the newest one any more")
            settle(folder)
            if keep_newer and newest_file(fresh) < newest_file(folder):
                log.info("%s stays: what worker %s has of it is older", folder, worker)
                return False
            fresh.rename(_complete(folder))
            settle(folder)
            return True


def note_fetched(job: JobPaths, now: float) -> None:
    """The checkpoint of a container was just brought here."""
    if has_files(job.checkpoint):
        write_json(job.fetched, {"at": now})


def fetched_at(job: JobPaths) -> float | None:
    """When a checkpoint of its containers was last brought here; None: never."""
    return read_number(job.fetched, "at")


def newest_file(folder: Path) -> float:
    """When the newest of its files was changed; before all times if there is none. Hidden ones: see `has_files`."""
    newest = -math.inf
    with suppress(FileNotFoundError), Tree(folder) as tree:
        for found in tree.below(strict=False):
            if not found.is_folder and not found.parts[0].startswith("."):
                newest = max(newest, found.info.st_mtime)
    return newest


def settle(folder: Path) -> None:
    """Finish a replacement that a crash interrupted. The caller holds the job's lock."""
    fresh, old = _complete(folder), folder.with_name(f"{folder.name}.old")
    if fresh.exists():
        remove_tree(old)
        with suppress(FileNotFoundError):
            folder.rename(old)
        fresh.rename(folder)
    remove_tree(old)


def _complete(folder: Path) -> Path:
    """Where new content waits that is whole."""
    return folder.with_name(f"{folder.name}.next")


def _advance_fence(worker: WorkerId, job: JobPaths) -> None:
    newest = newest_attempt(job)
    if worker.attempt < newest:
        raise StaleAttempt(f"attempt {worker.of} cannot begin: attempt {newest} has begun already")
    if worker.attempt > newest:
        write_json(job.fence, {"attempt": worker.attempt})


def has_files(folder: Path) -> bool:
    """Hidden ones do not count: they are checkpoints that are not whole yet."""
    return any(not name.startswith(".") for name in any_name(folder))


def forget_job(job: JobPaths) -> None:
    """Remove all that is kept of a job; at once, so that none is seen half."""
    gone = job.folder.with_name(f"{job.folder.name}.gone")
    remove_tree(gone)
    with suppress(FileNotFoundError):
        job.folder.rename(gone)
    remove_tree(gone)
