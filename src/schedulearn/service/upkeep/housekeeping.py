"""Files of finished jobs are kept for a set time and size, then removed, oldest first; so is the audit log, by time."""

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from schedulearn.archive.remove import remove_tree
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.states import FINISHED
from schedulearn.executors.common.paths import JobPaths
from schedulearn.executors.process.claim import runs
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.repeating import Repeating
from schedulearn.service.upkeep.disk import Size, Sizes, folder_size
from schedulearn.store import Store

_LOG = logging.getLogger(__name__)
_EVERY = 600.0  # seconds between two rounds
_MEASURE_EVERY = 60.0  # seconds
_FIRST_MEASURE = 2.0  # seconds after the start, when the nodes are known
_SNAPSHOT_AGE = 86400.0  # one that no job needs is kept this long: the next submission is often of the same folder
_KEYS_AGE = 2 * 86400.0  # how long the key of a submission is remembered
DISK = "disk_of_users"  # the setting: bytes of the folders of each user's jobs, by the user's id


@dataclass(frozen=True, slots=True)
class Storage:
    """What the data folder takes, in bytes."""

    jobs_bytes: int
    logs_bytes: int  # part of the above
    snapshots_bytes: int
    database_bytes: int
    free_bytes: int


def measure(folder: DataFolder, sizes: Collection[Size]) -> Storage:
    """`sizes`: of the jobs' folders."""
    database = sum(_size(p) for p in folder.root.glob("schedulearn.db*"))
    free = shutil.disk_usage(folder.root).free
    total, logs = sum(size.total for size in sizes), sum(size.logs for size in sizes)
    return Storage(total, logs, folder_size(folder.snapshots), database, free)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _remove(folder: Path) -> None:
    try:
        remove_tree(folder)
    except OSError as error:  # the others must go on; the next round tries again
        _LOG.warning("%s cannot be removed: %s", folder, error)


class Housekeeper(Repeating):
    """Removes what need not be kept. Never touches anything of a job that is not finished."""

    def __init__(
        self,
        store: Store,
        folder: DataFolder,
        clock: Clock,
        keep_seconds: float,
        keep_bytes: int,
        keep_audit: float = 400 * 86400.0,
        measured: Callable[[Mapping[JobId, int]], None] = lambda _: None,
    ) -> None:
        """`measured` is told the size of each job's folder, about once a minute."""
        trouble = "housekeeping failed; it is tried again later"
        super().__init__("housekeeping", _MEASURE_EVERY, trouble, first=_FIRST_MEASURE)
        self._sizes, self._measured = Sizes(folder), measured
        self._store, self._folder, self._clock = store, folder, clock
        self._keep_seconds, self._keep_bytes, self._keep_audit = keep_seconds, keep_bytes, keep_audit
        self._cleaned_at = time.monotonic()

    def clean(self) -> list[JobId]:
        """One round; the jobs whose files were removed."""
        removed = self._clean_jobs()
        self._clean_snapshots()
        self._store.drop_audit(self._clock.now() - self._keep_audit)
        self._store.drop_submissions(self._clock.now() - _KEYS_AGE)
        return removed

    def note_storage(self) -> None:
        """Write down what everything takes, for the API; and what each user's jobs take, for their cap."""
        sizes = self._sizes.all({lease.worker.job for lease in self._store.leases()})
        self._measured({job: size.total for job, size in sizes.items()})
        used: Counter[str] = Counter()
        for job, owner in self._store.owners_of(sizes).items():
            used[str(owner)] += sizes[job].total
        self._store.set_setting(DISK, used)
        taken = asdict(measure(self._folder, sizes.values()))
        # The data folder is on the service's own machine.
        here = [node.name for node in self._store.list_nodes() if not node.address or node.address.startswith("unix:")]
        self._store.set_setting("storage", dict.fromkeys(here[:1], taken))

    def look(self) -> None:
        if time.monotonic() - self._cleaned_at >= _EVERY:
            self._cleaned_at = time.monotonic()
            self.clean()
        self.note_storage()

    def _clean_jobs(self) -> list[JobId]:
        on_disk = self._sizes.on_disk()
        for half_gone in self._folder.jobs.glob("*.gone"):  # the service was killed while it removed a job
            _remove(half_gone)
        finished = self._finished_times(on_disk)
        sizes = {job: self._sizes.at_rest(job).total for job in finished}
        total, oldest_kept = sum(sizes.values()), self._clock.now() - self._keep_seconds
        removed = []
        for job in sorted(finished, key=lambda job: finished[job]):
            if finished[job] >= oldest_kept and total <= self._keep_bytes:
                break
            _remove(on_disk[job])
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
                if not runs(JobPaths.of(self._folder.root, job)):
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
            name = file.name.removesuffix(".tar.gz")
            if name not in needed and file.stat().st_mtime < newest:  # no job has asked for it meanwhile
                self._store.drop_snapshots([name])  # first: what no user has is not used while it goes
                file.unlink(missing_ok=True)
