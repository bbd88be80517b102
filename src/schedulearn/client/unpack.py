"""What comes back from a job stays in the folder that it is brought into."""

import os
import tarfile
from pathlib import Path

from schedulearn.client.errors import ClientError


def check_member(member: tarfile.TarInfo, folder: Path) -> None:
    """ClientError unless it is a file, a folder or a link, and neither it nor what it links to lies outside.

    What was unpacked before counts: a name may lead through a link. Owner and unusual bits are dropped.
    """
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise ClientError(f"{member.name!r} is no file, folder or link; nothing more was fetched")
    place = folder / member.name
    targets = [place]
    if member.islnk():
        targets.append(folder / member.linkname)
    elif member.issym():
        targets.append(place.parent / member.linkname)
    if not all(_inside(target, folder) for target in targets):
        raise ClientError(f"{member.name!r} would lead out of {folder}; nothing more was fetched")
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
    member.mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)


def _inside(target: Path, folder: Path) -> bool:
    real = os.path.realpath(folder)
    return os.path.commonpath([real, os.path.realpath(target)]) == real
