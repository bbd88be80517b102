"""The disk of the data folder: what everything takes, space kept back for the database, and the job that fills it."""

import logging
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schedulearn.archive.walk import Tree
from schedulearn.core.domain.events import DiskExceeded
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.ports import Clock, EventSink
from schedulearn.core.domain.units import format_size
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.repeating import Repeating
from schedulearn.store import Store

_LOG = logging.getLogger(__name__)
_LOOK_EVERY = 1.0  # seconds
_WALK_REST = 20.0  # times as long as a look took: walking is slow, and the disk may stay nearly full
_LOW, _LOW_SHARE = 512 << 20, 0.025  # bytes, or a part of a small disk: with less left it is nearly full
_RESERVE, _RESERVE_SHARE = 64 << 20, 0.05
_GROWTH = 0.125  # of what nearly full is: a job that grew by less fills no disk
_PART = 0.25  # of what the disk has lost: a job that took less is not to blame


def folder_size(folder: Path) -> int:
    """Bytes on disk below a folder; links are not followed, what vanishes meanwhile is not counted."""
    try:
        tree = Tree(folder, anyones=True)
    except OSError:
        return 0
    with tree:
        return sum(found.info.st_blocks * 512 for found in tree.below(strict=False) if not found.is_folder)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a job's folder, in bytes."""

    total: int = 0
    logs: int = 0  # part of the above


class Sizes:
    """Of the folders of all jobs. Those of jobs that do not run rest: they are walked once."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._resting: dict[JobId, Size] = {}

    def all(self, busy: Collection[JobId]) -> dict[JobId, Size]:
        """`busy`: jobs that may write just now."""
        found = self.on_disk()
        self._resting = {job: size for job, size in self._resting.items() if job in found and job not in busy}
        return {job: self.now(job) if job in busy else self.at_rest(job) for job in found}

    def on_disk(self) -> dict[JobId, Path]:
        return {JobId(int(path.name)): path for path in self._folder.jobs.glob("*") if path.name.isdigit()}

    def at_rest(self, job: JobId) -> Size:
        """Of one that does not run."""
        if job not in self._resting:
            self._resting[job] = self.now(job)
        return self._resting[job]

    def now(self, job: JobId) -> Size:
        place = self._folder.jobs / str(job)
        return Size(folder_size(place), sum(folder_size(log) for log in place.glob("attempts/*/*/log")))


class Reserve:
    """A file of nothing that is given up when the disk is full, so that the database can still be written to."""

    def __init__(self, folder: DataFolder) -> None:
        self._root, self._file = folder.root, folder.reserve

    def adjust(self) -> None:
        """Give it up where nothing else is left; make it again once there is plenty."""
        disk = look_at(self._root)
        if self._file.exists():
            self.release_if_full()
        elif disk.free >= disk.reserve + 2 * disk.low:
            self._make(disk.reserve)

    def release_if_full(self) -> None:
        disk = look_at(self._root)
        if disk.free < disk.reserve // 2 and self._file.exists():
            self._file.unlink(missing_ok=True)
            _LOG.warning("the disk of %s is full: what was kept back for the database is given up", self._root)

    def free(self) -> int:
        """Bytes that are left to others than the database."""
        disk = look_at(self._root)
        return disk.free if self._file.exists() else max(0, disk.free - disk.reserve)

    def _make(self, size: int) -> None:
        try:
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:  # others were quicker
            self._file.unlink(missing_ok=True)
            _LOG.info("nothing is kept back for the database: %s", error)


class Disk(NamedTuple):
    """All in bytes."""

    free: int
    low: int  # with less left it is nearly full
    reserve: int  # what is kept back for the database


def look_at(folder: Path) -> Disk:
    disk = shutil.disk_usage(folder)
    low, reserve = min(_LOW, int(disk.total * _LOW_SHARE)), min(_RESERVE, int(disk.total * _RESERVE_SHARE))
    return Disk(disk.free, low, reserve)


def culprit(before: Mapping[JobId, int], now: Mapping[JobId, int], lost: int, low: int) -> JobId | None:
    """The job that grew the most, if that is what fills the disk, which has `lost` so many bytes meanwhile."""
    growth = {job: size - before.get(job, 0) for job, size in now.items()}
    if not growth:
        return None
    largest = max(growth, key=lambda job: growth[job])
    return largest if growth[largest] >= max(_PART * lost, _GROWTH * low) else None


@dataclass(frozen=True, slots=True)
class _Look:
    free: int
    sizes: Mapping[JobId, int]


class DiskGuard(Repeating):
    """Stops jobs that take more than they may, and the one that fills the disk. Housekeeping tells it the sizes."""

    def __init__(self, store: Store, folder: DataFolder, clock: Clock, post: EventSink, most_per_job: int) -> None:
        """`most_per_job`: bytes; 0: any amount."""
        super().__init__("disk", _LOOK_EVERY, "the disk could not be looked at", rest=_WALK_REST)
        self._store, self._folder, self._clock, self._post = store, folder, clock, post
        self._most, self._reserve = most_per_job, Reserve(folder)
        self._sizes = Sizes(folder)
        self._before: _Look | None = None  # when the disk was last not nearly full

    def measured(self, sizes: Mapping[JobId, int]) -> None:
        """All folders were just looked at."""
        free = self._reserve.free()
        if self._before is None or free >= look_at(self._folder.root).low:
            self._before = _Look(free, dict(sizes))
        if self._most:
            for job in self._running():
                if sizes.get(job, 0) > self._most:
                    self._too_large(job, sizes[job])

    def look(self) -> bool:
        """Whether the disk is nearly full; if so, the job that fills it is stopped."""
        self._reserve.adjust()
        free, low = self._reserve.free(), look_at(self._folder.root).low
        if free >= low or self._before is None:
            return False
        sizes = {job: self._sizes.now(job).total for job in self._running()}
        lost = max(0, self._before.free - free)
        if (job := culprit(self._before.sizes, sizes, lost, low)) is not None:
            grown = format_size(sizes[job] - self._before.sizes.get(job, 0))
            cause = f"the service's disk is nearly full ({format_size(free)} left), and its files grew by {grown}"
            self._post(DiskExceeded(self._clock.now(), job, cause, grace=0.0))
        return True

    def _too_large(self, job: JobId, size: int) -> None:
        cause = f"its files take {format_size(size)}: more than {format_size(self._most)}, which one job may have"
        self._post(DiskExceeded(self._clock.now(), job, cause))

    def _running(self) -> set[JobId]:
        return {lease.worker.job for lease in self._store.leases()}
