"""A user who swaps folders for links, or plants hard links, while the service works as root: nothing else is touched.

Each test has the user at work all the time, and the service do the same thing many times. What is asserted holds for
every interleaving, so a test can only fail if something was really followed.
"""

import errno
import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from schedulearn.archive import child
from schedulearn.archive.remove import remove_tree
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.archive import Entry, pack, unpack
from schedulearn.executors.common.folders import commit, newest_file, prepare_job_folders
from schedulearn.executors.common.paths import JobPaths
from schedulearn.executors.docker.layers import setup_of
from schedulearn.executors.docker.shared import SharedCheckpoints
from schedulearn.executors.kernel.procfs import descendants
from schedulearn.service.exec.commands import tar_of
from schedulearn.service.upkeep.housekeeping import folder_size
from support.swapping import USER, swap_for_links, swapping
from support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user, and be lured by one"),
]
OWNER = (USER, USER)
SECRET = b"the secret of somebody else"
ROUNDS = 40
FOLDERS = [f"d{number}" for number in range(30)]


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder that is none of the user's. In the end it is as it was: its owners, its modes, its content.

    All may read it: that links are not followed is what is tried, not that others' files are left out.
    """
    folder = tmp_path / "outside"
    (folder / "d").mkdir(parents=True)
    for name in ("f", "d/f", "requirements.txt"):
        (folder / name).write_bytes(SECRET)
    before = facts(folder)
    yield folder
    assert facts(folder) == before


def facts(folder: Path) -> list[tuple[object, ...]]:
    return [
        (path, info.st_uid, info.st_gid, info.st_mode, info.st_nlink, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *sorted(folder.rglob("*")))
        for info in [path.lstat()]
    ]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The user's own folder, with folders in it that have the same names in them as the one outside."""
    folder = tmp_path / "mine"
    for name in FOLDERS:
        (folder / name / "d").mkdir(parents=True)
        for file in ("f", "d/f", "requirements.txt"):
            (folder / name / file).write_bytes(b"my own")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, *OWNER)
    return folder


@pytest.fixture
def job(tmp_path: Path) -> JobPaths:
    paths = JobPaths(tmp_path / "1")
    paths.folder.mkdir()
    paths.folder.chmod(0o755)  # more than a job has: it can list the names
    return paths


def snapshot(folder: Path) -> Path:
    path = folder / "snapshot.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for number in range(20):
            info = tarfile.TarInfo(f"d{number}/f")
            info.size = 6
            tar.addfile(info, io.BytesIO(b"my own"))
    return path


def worker(attempt: int) -> WorkerId:
    return WorkerId(JobId(1), attempt, 0)


def swap_everything(outside: Path) -> None:
    """Whatever the user can reach below the job's folder: its folders become links."""
    for place, folders, _ in os.walk("."):
        for path in (Path(place, name) for name in folders if name.startswith("d")):
            if not path.is_symlink():
                path.rename(f"{path}.aside")
                path.symlink_to(outside)


def test_a_run_folder_is_filled(tmp_path: Path, job: JobPaths, outside: Path) -> None:
    archive = snapshot(tmp_path)
    with swapping(job.folder, lambda: swap_everything(outside)):
        for attempt in range(1, ROUNDS):
            prepare_job_folders(worker(attempt), job, archive, OWNER)
            assert job.run.lstat().st_uid == USER
            while job.run.exists():
                with suppress(OSError):  # the user may be quicker, and put something into it again
                    remove_tree(job.run)


def test_a_run_folder_belongs_to_its_user_as_a_whole(tmp_path: Path, job: JobPaths) -> None:
    prepare_job_folders(worker(1), job, snapshot(tmp_path), OWNER)
    found = [job.run, *job.run.rglob("*")]
    assert len(found) == 41
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in found} == {OWNER}
    assert sorted(path.name for path in job.folder.iterdir()) == ["checkpoint", "fence.json", "prepare.lock", "run"]


def test_what_is_fetched_replaces_a_folder(job: JobPaths, mine: Path, outside: Path) -> None:
    packed = list(pack([Entry("work", mine)], OWNER))
    prepare_job_folders(worker(1), job, None, OWNER)
    with swapping(job.folder, lambda: swap_everything(outside)):
        for _ in range(ROUNDS):
            commit(worker(1), job, job.run, lambda fresh: unpack(packed, fresh, OWNER), keep_newer=True)
    assert job.run.lstat().st_uid == USER


def test_whoever_unpacks_takes_no_signals_from_its_user(tmp_path: Path, mine: Path) -> None:
    """Else a job could stop it, and with it a thread that starts everybody's jobs."""
    fresh, tried = tmp_path / "fresh", list[int]()
    fresh.mkdir()

    def chunks() -> Iterator[bytes]:
        first, *rest = pack([Entry("work", mine)], OWNER)
        yield first
        pid = wait_until(unpacking, what="it has become its user")
        tried.append(signalled(pid))
        yield from rest

    unpack(chunks(), fresh, OWNER)
    assert tried == [errno.EPERM]
    assert {path.lstat().st_uid for path in fresh.rglob("*")} == {USER}


def unpacking() -> int | None:
    """The process that unpacks for this one, once it makes files as the user."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            effective = next(line.split()[2] for line in status.splitlines() if line.startswith("Uid:"))
            if effective == str(USER) and child.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


def signalled(pid: int) -> int:
    """What the system says to the user who tries it; 0: it is done."""
    trying = os.fork()
    if trying == 0:
        try:
            os.setgid(USER)
            os.setuid(USER)
            os.kill(pid, 0)
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(trying, 0)[1])


def test_a_folder_is_packed_and_looked_at(mine: Path, outside: Path) -> None:
    names = (f"{FOLDERS[0]}/requirements.txt", f"ls {' '.join(FOLDERS)}")
    with swapping(mine, swap_for_links(FOLDERS, outside)):
        for _ in range(ROUNDS):
            assert SECRET not in b"".join(pack([Entry("work", mine)], OWNER))
            assert SECRET not in b"".join(tar_of(mine, ""))
            assert SECRET not in str(setup_of(names, mine)).encode()
            newest_file(mine)
            folder_size(mine)


def test_a_shared_checkpoint_is_copied(tmp_path: Path, mine: Path, outside: Path) -> None:
    shared = SharedCheckpoints(tmp_path / "shared", "instance")
    (tmp_path / "shared").mkdir()
    shared.bind(worker(1), OWNER)
    first = tmp_path / "shared" / "instance" / "1" / "1"
    first.rmdir()
    mine.rename(first)
    with swapping(first, swap_for_links(FOLDERS, outside)):
        for attempt in range(2, ROUNDS):
            own = Path(shared.bind(worker(attempt), OWNER).source)
            found = [own, *own.rglob("*")]
            assert {path.lstat().st_uid for path in found} == {USER}
            assert SECRET not in b"".join(
                path.read_bytes() for path in found if path.is_file() and not path.is_symlink()
            )
            remove_tree(own)
    assert sorted(path.name for path in first.parent.iterdir()) == ["1"]


def test_a_folder_is_removed(tmp_path: Path, outside: Path) -> None:
    gone = tmp_path / "gone"

    def make_and_swap() -> None:
        for name in FOLDERS:
            Path(f"{name}/d").mkdir(parents=True, exist_ok=True)
        swap_for_links(FOLDERS, outside)()

    for _ in range(10):
        gone.mkdir()
        os.chown(gone, *OWNER)
        with swapping(gone, make_and_swap), suppress(OSError):  # the user may be faster in the very end
            remove_tree(gone)
        remove_tree(gone)
        assert not gone.exists()


def test_hard_links_to_others_files_are_neither_given_away_nor_shown(
    tmp_path: Path, mine: Path, job: JobPaths, outside: Path
) -> None:
    """As where the kernel does not protect them."""
    victim = tmp_path / "victim"
    victim.write_bytes(SECRET)
    victim.chmod(0o600)
    public = tmp_path / "public"
    public.write_bytes(b"for all")
    public.chmod(0o644)
    for name, target in (("planted", victim), ("d0/planted", victim), ("shown", public)):
        os.link(target, mine / name)
    packed = b"".join(pack([Entry("work", mine)], OWNER))
    assert SECRET not in packed
    assert b"for all" in packed
    assert SECRET not in b"".join(tar_of(mine, ""))
    assert SECRET not in str(setup_of(("ls planted d0",), mine)).encode()
    mine.rename(job.run)
    prepare_job_folders(worker(2), job, None, OWNER)
    remove_tree(job.run)
    assert (victim.stat().st_uid, victim.read_bytes(), victim.stat().st_nlink) == (0, SECRET, 1)


def test_a_folder_of_somebody_else_that_was_moved_in_is_not_shown(mine: Path, outside: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / "theirs" / "f").write_bytes(SECRET)
    (tmp_path / "theirs").rename(mine / "moved")
    assert SECRET not in b"".join(tar_of(mine, ""))
    with pytest.raises(Exception, match="no 'moved/f'"):
        tar_of(mine, "moved/f")
