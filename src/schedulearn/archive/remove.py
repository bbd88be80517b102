"""A folder removed with all that is in it, however deep, while its owner may still be at work in it."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from schedulearn.archive.extract import OPEN_FOLDER

_MOST_ROUNDS = 10_000  # one for each level; and a job that goes on making files does not keep us for ever


def remove_tree(folder: Path) -> None:
    """Also where a job took away its own right to write. What is a link is removed, and never followed."""
    try:
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove(above, folder.name)
    finally:
        os.close(above)


def _remove(above: int, name: str) -> None:
    if _unlinked(above, name):
        return
    top = _opened(above, name)
    if top is None:
        return
    try:
        for _ in range(_MOST_ROUNDS):
            if not _empty(top):
                break
    finally:
        os.close(top)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=above)


def _empty(top: int) -> bool:
    """Remove what is in it; folders in its folders come up to it for the next round. False: there is nothing left."""
    names = os.listdir(top)
    for name in names:
        if _unlinked(top, name):
            continue
        folder = _opened(top, name)
        if folder is None:
            continue
        try:
            _bring_up(folder, top)
        finally:
            os.close(folder)
        with suppress(FileNotFoundError, OSError):  # something was put into it: the next round sees that
            os.rmdir(name, dir_fd=top)
    return bool(names)


def _bring_up(folder: int, top: int) -> None:
    """So that no folder is too deep: neither for descriptors nor for the stack."""
    for name in os.listdir(folder):
        if _unlinked(folder, name):
            continue
        inner = _opened(folder, name)  # it must be writable to be moved
        if inner is None:
            continue
        os.close(inner)
        with suppress(FileNotFoundError):
            os.rename(name, f"removed-{os.urandom(8).hex()}", src_dir_fd=folder, dst_dir_fd=top)


def _unlinked(parent: int, name: str) -> bool:
    """False: it is a folder."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return True
    except FileNotFoundError:
        return True
    except IsADirectoryError:  # it was swapped
        pass
    return False


def _opened(parent: int, name: str) -> int | None:
    """The folder, with all rights for its owner; None if it is none any more."""
    try:
        here = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    try:
        if os.fstat(here).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{here}", 0o700)  # noqa: PTH101 (the folder that is open, whatever its name is now)
        return os.open(".", OPEN_FOLDER, dir_fd=here)
    finally:
        os.close(here)
