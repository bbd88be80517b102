"""The data folder as one file, and back."""

import gzip
import os
import socket
import tarfile
from pathlib import Path

import pytest

from schedulearn.archive.walk import Found
from schedulearn.core.domain.errors import Conflict, NotFound, SchedulearnError
from schedulearn.core.domain.ids import JobId
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.roles import RoleLock
from schedulearn.service.upkeep.backup import backup, restore
from schedulearn.store import Store, open_store
from support.builders import spec
from support.swapping import USER, swap_for_links, swapping

CLAIM = "jobs/1/attempts/1/0/claim"


@pytest.fixture
def data(folder: DataFolder, store: Store) -> Path:
    """A data folder with one job and its files, in use."""
    store.add_job(spec(name="mnist"), "ann", 1.0, "submitted by ann")
    run = folder.jobs / "1" / "run"
    run.mkdir(parents=True)
    (run / "model.pt").write_bytes(os.urandom(10_000))
    (run / "latest").symlink_to("/somewhere/else")
    (folder.root / CLAIM).parent.mkdir(parents=True)
    (folder.root / CLAIM).write_text("{}")
    (folder.root / "client.json").write_text('{"token": "secret"}')
    return folder.root


def test_round_trip(data: Path, tmp_path: Path) -> None:
    file, back = tmp_path / "backups" / "b.tar.gz", tmp_path / "back"
    backup(data, file)
    assert file.stat().st_mode & 0o777 == 0o600, "it holds secrets"
    restore(file, back)
    assert (back / "jobs/1/run/model.pt").read_bytes() == (data / "jobs/1/run/model.pt").read_bytes()
    assert (back / "jobs/1/run/latest").readlink() == Path("/somewhere/else")
    assert (back / "client.json").exists()
    with open_store(back / "schedulearn.db") as store:
        row = store.job(JobId(1))
        assert row
        assert row.job.spec.name == "mnist"


def test_what_belongs_to_running_processes_is_left_out(data: Path, tmp_path: Path) -> None:
    """A restored folder must not take the original's processes for its own: it would kill them as left-overs."""
    (data / "service.json").write_text("{}")
    (data / "reserve").write_bytes(bytes(4096))
    folder = DataFolder(data)
    with (
        RoleLock(folder, "api"),
        RoleLock(folder, "scheduler"),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nudge,
    ):
        nudge.bind(str(data / "nudge.sock"))
        backup(data, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        names = set(tar.getnames())
    assert not names & {CLAIM, "service.json", "nudge.sock", "api.lock", "scheduler.lock", "reserve"}
    assert "jobs/1/run/model.pt" in names


def test_a_backup_into_the_data_folder_itself_does_not_hold_itself(data: Path, tmp_path: Path) -> None:
    backup(data, data / "b.tar.gz")
    restore(data / "b.tar.gz", tmp_path / "back")
    assert {p.name for p in (tmp_path / "back").iterdir()} == {"backup.json", "client.json", "jobs", "schedulearn.db"}


def test_files_that_come_and_go_meanwhile_do_not_break_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs go on: a temporary file is there when the folder is listed, and gone when it is read."""
    passing = data / "jobs/1/run/passing.tmp"
    passing.touch()
    look = Found.open

    def open_later(self: Found) -> int | None:
        if self.parts[-1] == passing.name:
            passing.unlink()
        return look(self)

    monkeypatch.setattr(Found, "open", open_later)
    backup(data, tmp_path / "b.tar.gz")
    restore(tmp_path / "b.tar.gz", tmp_path / "back")
    assert not (tmp_path / "back/jobs/1/run/passing.tmp").exists()


def test_an_older_backup_is_replaced_only_by_a_whole_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "b.tar.gz"
    file.write_bytes(b"old")
    monkeypatch.setattr(
        "schedulearn.service.upkeep.backup._pieces", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(OSError, match="full"):
        backup(data, file)
    assert file.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir() if "b.tar" in p.name] == ["b.tar.gz"]


def test_there_must_be_something_to_save(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Schedulearn database"):
        backup(tmp_path, tmp_path / "b.tar.gz")


def test_a_folder_that_is_not_empty_is_refused(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "b.tar.gz")
    with pytest.raises(Conflict, match="not empty"):
        restore(tmp_path / "b.tar.gz", data)


def test_a_running_service_is_refused(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "b.tar.gz")
    with RoleLock(DataFolder(data), "api"), pytest.raises(Conflict, match=f"running.*pid {os.getpid()}"):
        restore(tmp_path / "b.tar.gz", data)


def test_an_empty_folder_is_used(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "b.tar.gz")
    (tmp_path / "back").mkdir()
    restore(tmp_path / "b.tar.gz", tmp_path / "back")
    assert (tmp_path / "back" / "schedulearn.db").exists()


def whole(data: Path, tmp_path: Path) -> bytes:
    backup(data, tmp_path / "whole.tar.gz")
    return (tmp_path / "whole.tar.gz").read_bytes()


def other_tar(tmp_path: Path) -> bytes:
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as tar:
        tar.add(__file__, "something.py")
    return (tmp_path / "other.tar.gz").read_bytes()


@pytest.mark.parametrize("damage", ["no archive", "empty", "cut off", "bits turned", "other archive"])
def test_a_file_that_is_no_backup_is_refused_and_leaves_nothing(data: Path, tmp_path: Path, damage: str) -> None:
    good = whole(data, tmp_path)
    middle = len(good) // 2
    content = {
        "no archive": b"hello",
        "empty": b"",
        "cut off": good[:middle],
        "bits turned": good[:middle] + bytes(b ^ 0xFF for b in good[middle : middle + 500]) + good[middle + 500 :],
        "other archive": other_tar(tmp_path),
    }[damage]
    (tmp_path / "bad.tar.gz").write_bytes(content)
    before = set(tmp_path.iterdir())
    with pytest.raises(SchedulearnError, match=r"bad\.tar\.gz"):
        restore(tmp_path / "bad.tar.gz", tmp_path / "back")
    assert set(tmp_path.iterdir()) == before


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        restore(tmp_path / "none.tar.gz", tmp_path / "back")


def test_nobody_can_read_it_while_it_is_written(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under its own name nor under one that could be guessed: a link there is not written through."""
    to, victim = tmp_path / "to", tmp_path / "victim"
    to.mkdir()
    victim.write_text("untouched")
    (to / "b.tar.gz.partial").symlink_to(victim)
    (to / "b.tar.gz").symlink_to(victim)
    seen = []
    write = gzip.GzipFile.write

    def look(self: gzip.GzipFile, piece: bytes) -> int:
        seen.append({path.name: path.stat().st_mode & 0o777 for path in to.iterdir() if not path.is_symlink()})
        return write(self, piece)

    monkeypatch.setattr(gzip.GzipFile, "write", look)
    mask = os.umask(0)
    try:
        backup(data, to / "b.tar.gz")
    finally:
        os.umask(mask)
    assert seen
    assert all(list(modes.values()) == [0o600] for modes in seen)
    assert len({name for modes in seen for name in modes} - {"b.tar.gz", "b.tar.gz.partial"}) == 1
    assert victim.read_text() == "untouched"
    assert not (to / "b.tar.gz").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user, and be lured by one")
def test_a_job_that_swaps_a_folder_for_a_link_brings_nothing_into_it(data: Path, tmp_path: Path) -> None:
    outside, run = tmp_path / "outside", data / "jobs/1/run"
    names = [f"d{number}" for number in range(30)]
    for place in (outside, *(run / name for name in names)):
        place.mkdir()
        (place / "f").write_bytes(b"my own" if place != outside else b"a secret of somebody else")
        os.chown(place, USER, USER)
    os.chown(run, USER, USER)
    with swapping(run, swap_for_links(names, outside)):
        for _ in range(40):
            backup(data, tmp_path / "b.tar.gz")
            with tarfile.open(tmp_path / "b.tar.gz") as tar:
                files = [tar.extractfile(member) for member in tar if member.isreg()]
                assert all(b"a secret" not in file.read() for file in files if file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_come_back_to_their_owners(data: Path, tmp_path: Path) -> None:
    run = data / "jobs/1/run"
    for path in (run, run / "model.pt", run / "latest"):
        os.chown(path, USER, USER, follow_symlinks=False)
    backup(data, tmp_path / "b.tar.gz")
    restore(tmp_path / "b.tar.gz", tmp_path / "back")
    back = tmp_path / "back" / "jobs/1/run"
    assert [path.lstat().st_uid for path in (back, back / "model.pt", back / "latest")] == [USER] * 3
    assert (tmp_path / "back" / "client.json").stat().st_uid == 0
