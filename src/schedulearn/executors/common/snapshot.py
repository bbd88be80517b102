"""Fill a run folder from the snapshot of a user's project, refusing archives that reach outside of it."""

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.units import short

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
            archive.extractall(folder, members=_checked(archive), filter="data")
    except FileNotFoundError as error:
        if not snapshot.exists():
            raise ExecutorError(f"the snapshot {snapshot.name} is missing") from error
        raise
    except tarfile.FilterError as error:
        raise ExecutorError(f"the snapshot is refused: {error}") from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ExecutorError(f"the snapshot is damaged: {error}") from error


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Stricter than the library's filter: no member may even pass through a link."""
    links: set[PurePosixPath] = set()
    files: set[PurePosixPath] = set()
    for member in archive:
        path = _inside(member.name)
        if any(parent in links for parent in (path, *path.parents)):
            raise ExecutorError(f"the snapshot is refused: {short(member.name)} goes through a link")
        if member.issym():
            _check_target(path, member.linkname)
            links.add(path)
        elif member.islnk():
            if _inside(member.linkname) not in files:
                raise ExecutorError(f"the snapshot is refused: {short(member.name)} links to nothing in it")
            files.add(path)
        elif member.isreg():
            files.add(path)
        elif not member.isdir():
            raise ExecutorError(f"the snapshot is refused: {short(member.name)} is no file, folder or link")
        yield member


def _inside(name: str) -> PurePosixPath:
    """A member's path, refused unless it plainly lies in the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ExecutorError(f"the snapshot is refused: {short(name)} leads outside of it")
    return path


def _check_target(link: PurePosixPath, target: str) -> None:
    """A symbolic link may go up, but not out."""
    depth = len(link.parent.parts)
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise ExecutorError(f"the snapshot is refused: the link {short(str(link))} leads outside of it")


def give(folder: Path, owner: tuple[int, int]) -> None:
    """Make everything in it the owner's."""
    os.chown(folder, *owner)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(place) / name, *owner, follow_symlinks=False)
