"""What is removed, in which order, and what never is."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import JobSpec
from schedulearn.service.common.config import DataFolder
from schedulearn.service.upkeep.disk import Sizes, folder_size
from schedulearn.service.upkeep.housekeeping import DISK, Housekeeper, measure
from schedulearn.store import Actor, AuditFilter, Once, SavedState, Store
from support.clock import HandClock
from support.scheduling import Bench

DAY = 86400.0
BLOCK = 64 * 1024


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


def housekeeper(bench: Bench, days: float = 30.0, size: int = 10**9) -> Housekeeper:
    return Housekeeper(bench.store, bench.folder, bench.clock, days * DAY, size)


def files_of(bench: Bench, job: JobId, blocks: int = 1) -> Path:
    folder = bench.folder.jobs / str(job)
    log = folder / "attempts" / "1" / "0" / "log"
    log.mkdir(parents=True)
    (log / "000000000000000.log").write_bytes(b"x" * BLOCK * blocks)
    return folder


def finished(bench: Bench, blocks: int = 1) -> tuple[JobId, Path]:
    """A job that has just ended, with its files."""
    job = bench.running()
    bench.exited(f"{job}.1.0")
    bench.cycle()
    return job, files_of(bench, job, blocks)


def test_files_are_kept_for_a_set_time(bench: Bench) -> None:
    old, old_files = finished(bench)
    bench.clock.pass_time(20 * DAY)
    _, new_files = finished(bench)
    bench.clock.pass_time(11 * DAY)
    assert housekeeper(bench).clean() == [old]
    assert (old_files.exists(), new_files.exists()) == (False, True)
    assert bench.state(old) == "succeeded", "what is known of it stays"


def test_above_the_size_the_oldest_go_first(bench: Bench) -> None:
    jobs = []
    for blocks in (2, 1, 1):
        jobs.append(finished(bench, blocks))
        bench.clock.pass_time(60.0)
    assert housekeeper(bench, size=3 * BLOCK).clean() == [jobs[0][0]]
    assert [files.exists() for _, files in jobs] == [False, True, True]


def test_files_of_unfinished_jobs_are_never_touched(bench: Bench) -> None:
    running = files_of(bench, bench.running())
    queued = files_of(bench, bench.submit(cpus=2))
    bench.cycle()
    bench.clock.pass_time(1000 * DAY)
    assert housekeeper(bench, days=0.0, size=0).clean() == []
    assert running.exists()
    assert queued.exists()


def test_folders_of_jobs_that_nobody_knows_are_removed(bench: Bench) -> None:
    """The service was killed after a job was deleted, before its files were."""
    orphan, half = files_of(bench, JobId(77)), files_of(bench, JobId(78))
    half = half.rename(half.with_name("78.gone"))
    (bench.folder.jobs / "notes").mkdir()
    housekeeper(bench).clean()
    assert not orphan.exists()
    assert not half.exists()
    assert (bench.folder.jobs / "notes").exists(), "what is not ours stays"


def snapshot(bench: Bench, name: str, age: float) -> Path:
    bench.folder.snapshots.mkdir(exist_ok=True)
    path = bench.folder.snapshots / name
    path.write_bytes(b"x")
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path


def test_snapshots_go_when_no_unfinished_job_needs_them(bench: Bench) -> None:
    needed, not_needed, half = "a" * 64, "b" * 64, ".upload-xyz"
    bench.submit(snapshot=needed)
    kept = snapshot(bench, f"{needed}.tar.gz", 2 * DAY)
    young = snapshot(bench, f"{'c' * 64}.tar.gz", 0.0)
    gone = [snapshot(bench, name, 2 * DAY) for name in (f"{not_needed}.tar.gz", half)]
    housekeeper(bench).clean()
    assert kept.exists()
    assert young.exists(), "the next submission is often of the same folder"
    assert not any(path.exists() for path in gone)


def test_whose_a_snapshot_was_is_forgotten_with_it(bench: Bench) -> None:
    gone, kept = "b" * 64, "c" * 64
    for sha in (gone, kept):
        for owner in (1, 2):
            bench.store.add_snapshot(sha, owner, "ann", 10, 1.0)
    snapshot(bench, f"{gone}.tar.gz", 2 * DAY)
    snapshot(bench, f"{kept}.tar.gz", 0.0)
    housekeeper(bench).clean()
    assert [bench.store.owns_snapshot(sha, owner) for sha in (gone, kept) for owner in (1, 2)] == [
        False,
        False,
        True,
        True,
    ]


def test_one_that_is_asked_for_meanwhile_stays(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = "b" * 64
    bench.store.add_snapshot(sha, 1, "ann", 10, 1.0)
    file = snapshot(bench, f"{sha}.tar.gz", 2 * DAY)
    load = bench.store.load_state

    def load_slowly() -> SavedState:
        os.utime(file)
        return load()

    monkeypatch.setattr(bench.store, "load_state", load_slowly)
    housekeeper(bench).clean()
    assert file.exists()
    assert bench.store.owns_snapshot(sha, 1)


def test_what_the_jobs_of_each_user_take(bench: Bench) -> None:
    owner = bench.store.add_user("ann", "user").id
    (_, mine), _ = finished(bench, 3), files_of(bench, JobId(77))  # which nobody knows
    housekeeper(bench).note_storage()
    assert bench.store.setting(DISK) == {str(owner): folder_size(mine)}


def test_the_audit_log_is_kept_for_a_set_time(bench: Bench) -> None:
    actor = Actor("ann", 1, "here", bench.clock.now())
    bench.store.add_audit(actor, "job.cancel", "job 1")
    bench.clock.pass_time(300 * DAY)
    bench.store.add_audit(replace(actor, at=bench.clock.now()), "job.cancel", "job 2")
    bench.clock.pass_time(99 * DAY)
    housekeeper(bench).clean()
    assert len(bench.store.audit(AuditFilter(), 10)) == 2
    bench.clock.pass_time(2 * DAY)
    housekeeper(bench).clean()
    assert [entry.object for entry in bench.store.audit(AuditFilter(), 10)] == ["job 2"]


def test_keys_of_submissions_are_kept_for_two_days(bench: Bench) -> None:
    once = Once(1, "key", "d" * 64)
    bench.store.add_job(JobSpec("a", "true"), "ann", bench.clock.now(), "", once=once)
    bench.clock.pass_time(1.9 * DAY)
    housekeeper(bench).clean()
    assert bench.store.submitted(once) is not None
    bench.clock.pass_time(0.2 * DAY)
    housekeeper(bench).clean()
    assert bench.store.submitted(once) is None


def test_what_everything_takes(bench: Bench) -> None:
    finished(bench, 2)
    snapshot(bench, f"{'a' * 64}.tar.gz", 0.0)
    storage = measure(bench.folder, Sizes(bench.folder).all(()).values())
    assert storage.logs_bytes == storage.jobs_bytes >= 2 * BLOCK
    assert storage.snapshots_bytes > 0
    assert storage.database_bytes > 0
    assert storage.free_bytes > 0
    housekeeper(bench).note_storage()
    assert bench.store.setting("storage")["a"]["logs_bytes"] == storage.logs_bytes


def test_an_empty_folder_takes_nothing(folder: DataFolder) -> None:
    assert measure(folder, Sizes(folder).all(()).values()).jobs_bytes == 0
