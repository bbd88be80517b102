"""The disk of the data folder: what is kept back for the database, and who is stopped for filling it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedulearn.core.domain.events import DiskExceeded
from schedulearn.core.domain.ids import JobId
from schedulearn.service.common.config import DataFolder
from schedulearn.service.upkeep import disk
from schedulearn.service.upkeep.disk import DiskGuard, Reserve, Sizes, culprit
from schedulearn.store import Store
from support.clock import HandClock
from support.disks import fill, small_disk
from support.scheduling import Bench

MEGABYTE = 1 << 20


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataFolder]:
    """A data folder on a disk of 16 MB, of which the last 400 kB count as nearly full."""
    with small_disk(tmp_path / "disk", 16) as folder:
        yield DataFolder(folder)


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def write(data: DataFolder, job: JobId, size: int, name: str = "run/model") -> None:
    file = data.jobs / str(job) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)


ONE, TWO = JobId(1), JobId(2)


@pytest.mark.parametrize(
    ("before", "now", "lost", "found"),
    [
        ({ONE: 100, TWO: 900}, {ONE: 800, TWO: 910}, 800, ONE),  # who grew, not who is large
        ({}, {ONE: 300, TWO: 400}, 700, TWO),  # what was not there before
        ({ONE: 100}, {ONE: 200}, 1000, None),  # somebody else fills the disk
        ({ONE: 100}, {ONE: 109}, 0, None),  # a little output fills no disk
        ({}, {}, 1000, None),
    ],
)
def test_who_fills_the_disk(before: dict[JobId, int], now: dict[JobId, int], lost: int, found: JobId | None) -> None:
    assert culprit(before, now, lost, low=80) == found


def test_what_is_kept_back_is_given_up_on_a_full_disk_and_made_again(data: DataFolder) -> None:
    reserve = Reserve(data)
    reserve.adjust()
    size = data.reserve.stat().st_blocks * 512
    assert size >= 16 * MEGABYTE * 0.04
    reserve.adjust()
    assert data.reserve.exists(), "there is space"
    filler = fill(data.root)
    with pytest.raises(OSError, match="No space"):
        (data.root / "database").write_bytes(b"x" * (size // 2))
    reserve.adjust()
    (data.root / "database").write_bytes(b"x" * (size // 2))
    reserve.adjust()
    assert not data.reserve.exists(), "it stays given up as long as there is little space"
    filler.unlink()
    reserve.adjust()
    assert data.reserve.exists()


def guard(bench: Bench, data: DataFolder, most: int = 0) -> tuple[DiskGuard, list[DiskExceeded]]:
    posted: list[DiskExceeded] = []
    return DiskGuard(bench.store, data, bench.clock, posted.append, most), posted  # type: ignore[arg-type]


def test_the_job_that_fills_the_disk_is_stopped_at_once(bench: Bench, data: DataFolder) -> None:
    quiet, grows = bench.running(), bench.running()
    watch, posted = guard(bench, data)
    write(data, quiet, 8 * MEGABYTE)
    watch.measured({quiet: 8 * MEGABYTE, grows: 0})
    assert not watch.look()
    write(data, grows, 7 * MEGABYTE)
    fill(data.root)
    assert watch.look()
    [told] = posted
    assert (told.job, told.grace) == (grows, 0.0)
    assert "disk is nearly full" in told.why
    assert "grew by 7.34 MB" in told.why


def test_nobody_is_stopped_for_what_others_write(bench: Bench, data: DataFolder) -> None:
    job = bench.running()
    watch, posted = guard(bench, data)
    watch.measured({job: 0})
    write(data, job, MEGABYTE)
    fill(data.root)
    assert watch.look()
    assert posted == []


def test_a_job_that_takes_more_than_it_may_is_stopped_in_peace(bench: Bench, data: DataFolder) -> None:
    small, large = bench.running(), bench.running()
    watch, posted = guard(bench, data, most=2 * MEGABYTE)
    watch.measured({small: MEGABYTE, large: 3 * MEGABYTE, JobId(99): 9 * MEGABYTE})
    [told] = posted
    assert (told.job, told.grace) == (large, None)
    assert told.why == "its files take 3.15 MB: more than 2.1 MB, which one job may have"


def test_folders_at_rest_are_walked_once(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    real = disk.folder_size
    monkeypatch.setattr(disk, "folder_size", lambda place: walked.append(place.name) or real(place))
    sizes = Sizes(folder)
    for job in (ONE, TWO):
        write(folder, job, 4096)
    first = sizes.all(busy={ONE})
    assert sorted(walked) == ["1", "2"]
    walked.clear()
    write(folder, ONE, 8192)
    second = sizes.all(busy={ONE})
    assert walked == ["1"]
    assert second[TWO] == first[TWO]
    assert second[ONE].total > first[ONE].total
    walked.clear()
    sizes.all(busy=())
    sizes.all(busy=())
    assert walked == ["1"], "once more, after its end"
