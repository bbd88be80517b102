"""What an archive from outside may hold. Python's own filters came with 3.11.4; Debian 12 has an older 3.11."""

import copy
import tarfile
from pathlib import PurePosixPath
from typing import Any

from schedulearn.domain.units import short


class Unsafe(Exception):
    """A member that would land, or lead, outside of the folder that the archive is unpacked into."""


class Members:
    """Looks at the members of an archive in turn, in their order."""

    def __init__(self) -> None:
        self._links: set[PurePosixPath] = set()
        self._files: set[PurePosixPath] = set()

    def check(self, member: tarfile.TarInfo) -> None:
        """Unsafe unless it is a file, a folder or a link that stays inside. None may even pass through a link."""
        path = _inside(member.name)
        if any(place in self._links for place in (path, *path.parents)):
            raise Unsafe(f"{short(member.name)} goes through a link")
        if member.issym():
            _check_target(path, member.linkname)
            self._links.add(path)
        elif member.islnk():
            if _inside(member.linkname) not in self._files:
                raise Unsafe(f"{short(member.name)} links to nothing in it")
            self._files.add(path)
        elif member.isreg():
            self._files.add(path)
        elif not member.isdir():
            raise Unsafe(f"{short(member.name)} is no file, folder or link")


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise Unsafe(f"{short(name)} leads outside of it")
    return path


def _check_target(link: PurePosixPath, target: str) -> None:
    """A symbolic link may go up, but not out."""
    depth = len(link.parent.parts)
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise Unsafe(f"the link {short(str(link))} leads outside of it")


def changed(member: tarfile.TarInfo, **values: Any) -> tarfile.TarInfo:
    """A copy of it with other values."""
    fresh = copy.copy(member)
    for name, value in values.items():
        setattr(fresh, name, value)
    return fresh


def extract_plainly(archive: tarfile.TarFile) -> tarfile.TarFile:
    """From now on nothing that it extracts is looked at: whoever calls this has done so."""
    archive.extraction_filter = lambda member, _: member  # an older Python has no filters, and ignores it
    return archive
