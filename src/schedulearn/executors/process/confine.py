"""What a process of a job can see and do: its own mounts, no rights beyond its user's.

Part of the shim and of the companion: standard library only, few imports. All of it is done by root, in a forked child
on its way to a job's command; `gain_nothing` also by others. Which folders it is about is decided by the service
(`view.py`).
"""
# ruff: noqa: PTH101, PTH102, PTH103
# (part of the shim: importing pathlib would double its time to start)

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from typing import Any

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 32, 4096, 16384, 1 << 19
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64
# The C library has no function for it; other machines are not known to run this.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_STAGE = "/tmp"  # where the file system for private folders is mounted before these are put into their places

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: Any) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    _call("mount", *words, ctypes.c_ulong(flags), options.encode() if options else None)


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _bind(handle: int, target: str) -> None:
    """By its handle: what it was called may be covered by now."""
    _mount(f"/proc/self/fd/{handle}", target, None, _MS_BIND)
    os.close(handle)


# --- what it can see


def see_only(view: dict[str, Any]) -> None:
    """Leave the mounts of the machine for a copy in which some folders are private, and others covered or shown again.

    OSError if the kernel does not permit that: then nothing may run that was meant to be confined.
    """
    mask = os.umask(0o022)
    _call("unshare", _CLONE_NEWNS)
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)  # what the machine mounts later is seen, nothing goes back
    shown = [(_open(source), at, writable) for source, at, writable in view["shown"]]
    nothing = [(_open(os.devnull), path) for path in view["masked"]]
    _cover(view["private"], view["covered"], view["size"])
    for handle, at, writable in shown:
        os.makedirs(at, exist_ok=True)
        _bind(handle, at)
        if not writable:
            kept = os.statvfs(at).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
            _mount("none", at, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)
    for handle, path in nothing:
        _bind(handle, path)
    if view["hide_processes"]:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=2")
    os.umask(mask)


def _cover(private: list[str], covered: list[str], size: int) -> None:
    """All out of one file system in memory, so that its size bounds all of it."""
    _mount("tmpfs", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode=0755")
    places = []
    for number, (path, mode) in enumerate([*((p, 0o1777) for p in private), *((p, 0o755) for p in covered)]):
        folder = f"{_STAGE}/{number}"
        os.mkdir(folder)
        os.chmod(folder, mode)
        places.append((_open(folder), path))
    for handle, path in sorted(places, key=lambda place: place[1] == _STAGE):  # the stage itself at last
        _bind(handle, path)


def see_as(namespace: int) -> None:
    """See what the process sees whose mount namespace this is. Follow no name before all rights are dropped."""
    _call("setns", namespace, _CLONE_NEWNS)


# --- what it can do


def drop_rights(uid: int, gid: int, groups: list[int]) -> None:
    """Become that user for good: no capabilities, none to be had by running a program either."""
    for number in range(_MOST_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # the kernel knows no more
    _leave_keyring()
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    gain_nothing()


def gain_nothing() -> None:
    """Stay this user for good. Takes no rights to do, so a service that is not root does it for its workers as well."""
    _libc.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, none)  # those that would be inherited are left by setuid
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _leave_keyring() -> None:
    """For one of its own. A process that inherits a session's keyring may read its keys, whatever user it becomes.

    As root: it counts among root's keys, and a user who has used up its own cannot keep the old one by that.
    """
    number = _KEYCTL.get(os.uname().machine)
    if number is None or _libc.syscall(ctypes.c_long(number), _KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return
    why = ctypes.get_errno()
    if why not in (errno.ENOSYS, errno.EPERM):  # there are no keys here, or they are kept from all of us
        raise OSError(why, f"keyctl: {os.strerror(why)}")


def main() -> int:
    """Whether this machine permits it, asked in a process of its own; 0: yes, also hiding processes, 1: without."""
    see_only({"shown": [], "masked": [], "private": [], "covered": [], "size": 4096, "hide_processes": False})
    with suppress(OSError):
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=2")
        return 0
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.stdout.write(f"{error.strerror}\n")
        sys.exit(2)
