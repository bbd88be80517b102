"""Files of finished jobs are kept for a set time and size, then removed, oldest first."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from schedulearn.domain.ids import JobId
from schedulearn.domain.ports import Clock
from schedulearn.domain.states import FINISHED
from schedulearn.service.config import DataFolder
from schedulearn.store import Store

_LOG = logging.getLogger(__name__)
_EVERY = 600.0  # seconds between two rounds
_MEASURE_EVERY = 60.0  # seconds
_FIRST_MEASURE = 2.0  # seconds after the start, when the nodes are known
_SNAPSHOT_AGE = 86400.0  # one that nobody needs is kept this long: the next submission is often of the same folder
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Storage:
    """What the data folder takes, in bytes."""

    jobs_bytes: int
    logs_bytes: int  # part of the above
    snapshots_bytes: int
    database_bytes: int
    free_bytes: int


def measure(folder: DataFolder) -> Storage:
    database = sum(_size(p) for p in folder.root.glob("schedulearn.db*"))
    logs = sum(folder_size(p) for p in folder.jobs.glob("*/attempts/*/*/log")) if folder.jobs.exists() else 0
    free = shutil.disk_usage(folder.root).free
    return Storage(folder_size(folder.jobs), logs, folder_size(folder.snapshots), database, free)


def folder_size(folder: Path) -> int:
    """Bytes on disk below a folder; links are not followed, what vanishes meanwhile is not counted."""
    total = 0
    for parent, _, files in os.walk(folder):
        total += sum(_size(Path(parent, name)) for name in files)
    return total


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


class Housekeeper:
    """Removes what need not be kept. Never touches anything of a job that is not finished."""

    def __init__(self, store: Store, folder: DataFolder, clock: Clock, keep_seconds: float, keep_bytes: int) -> None:
        self._store, self._folder, self._clock = store, folder, clock
        self._keep_seconds, self._keep_bytes = keep_seconds, keep_bytes
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="housekeeping", daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def clean(self) -> list[JobId]:
        """One round; the jobs whose files were removed."""
        removed = self._clean_jobs()
        self._clean_snapshots()
        return removed

    def note_storage(self) -> None:
        """Write down what everything takes, for whoever asks the API."""
        taken = asdict(measure(self._folder))
        # The data folder is on the service's own machine.
        here = [node.name for node in self._store.list_nodes() if not node.address or node.address.startswith("unix:")]
        self._store.set_setting("storage", dict.fromkeys(here[:1], taken))

    def _run(self) -> None:
        cleaned_at = time.monotonic()
        wait = _FIRST_MEASURE
        while not self._stop.wait(wait):
            wait = _MEASURE_EVERY
            try:
                if time.monotonic() - cleaned_at >= _EVERY:
                    cleaned_at = time.monotonic()
                    self.clean()
                self.note_storage()
            except Exception:
                _LOG.warning("housekeeping failed; it is tried again later", exc_info=True)

    def _clean_jobs(self) -> list[JobId]:
        on_disk = {JobId(int(p.name)): p for p in self._folder.jobs.glob("*") if p.name.isdigit()}
        for half_gone in self._folder.jobs.glob("*.gone"):  # the service was killed while it removed a job
            shutil.rmtree(half_gone, ignore_errors=True)
        finished = self._finished_times(on_disk)
        sizes = {job: folder_size(on_disk[job]) for job in finished}
        total, oldest_kept = sum(sizes.values()), self._clock.now() - self._keep_seconds
        removed = []
        for job in sorted(finished, key=lambda job: finished[job]):
            if finished[job] >= oldest_kept and total <= self._keep_bytes:
                break
            shutil.rmtree(on_disk[job], ignore_errors=True)
            total -= sizes[job]
            removed.append(job)
        if removed:
            _LOG.info("removed the files of %d finished jobs", len(removed))
        return removed

    def _finished_times(self, on_disk: Iterable[JobId]) -> dict[JobId, float]:
        """When each finished job on disk ended; -1 for those that the store no longer knows."""
        times: dict[JobId, float] = {}
        for job in on_disk:
            row = self._store.job(job)
            if row is None:
                times[job] = -1.0
            elif row.job.state in FINISHED:
                times[job] = row.job.finished_at or 0.0
        return times

    def _clean_snapshots(self) -> None:
        newest = time.time() - _SNAPSHOT_AGE
        # Also uploads that were never finished.
        old = [file for file in self._folder.snapshots.glob("*") if file.stat().st_mtime < newest]
        # Reading a long queue takes its time, and most rounds find nothing old.
        needed = {job.spec.snapshot for job in self._store.load_state().jobs} if old else set()
        for file in old:
            if file.name.removesuffix(".tar.gz") not in needed:
                file.unlink(missing_ok=True)
