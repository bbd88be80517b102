"""Fill a run folder from the snapshot of a user's project, refusing archives that reach outside of it."""

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from schedulearn.domain.archive import Members, Unsafe, changed, extract_plainly
from schedulearn.domain.errors import ExecutorError

Owner = tuple[int, int] | None  # uid, gid; None: the service's own


def fill_run_folder(run: Path, snapshot: Path | None, owner: Owner) -> None:
    """Unpack beside it and rename, so that a run folder is always whole. The caller holds the job's lock."""
    temporary = run.with_name("run.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700)
    try:
        if snapshot is not None:
            _unpack(snapshot, temporary)
        if owner:
            give(temporary, owner)
        temporary.rename(run)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _unpack(snapshot: Path, folder: Path) -> None:
    try:
        with tarfile.open(snapshot) as archive:
            extract_plainly(archive).extractall(folder, members=_checked(archive))
    except FileNotFoundError as error:
        if not snapshot.exists():
            raise ExecutorError(f"the snapshot {snapshot.name} is missing") from error
        raise
    except Unsafe as error:
        raise ExecutorError(f"the snapshot is refused: {error}") from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ExecutorError(f"the snapshot is damaged: {error}") from error


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    members = Members()
    for member in archive:
        members.check(member)
        # Nobody's but the service's, which must be able to read and remove it, and no bits beyond the usual ones.
        usual = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
        yield changed(member, mode=usual, uid=os.geteuid(), gid=os.getegid(), uname="", gname="")


def give(folder: Path, owner: tuple[int, int]) -> None:
    """Make everything in it the owner's."""
    os.chown(folder, *owner)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(place) / name, *owner, follow_symlinks=False)
