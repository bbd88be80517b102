"""What a worker with a user of its own sees of this machine's files: decided here, done in `confine.py`.

Its /tmp, /var/tmp and /dev/shm are its own. The data folder and the home of the service's user are covered, and so are
folders that its user could not pass on the way to what it needs. In what is covered, its job's folder is shown again;
and, read-only, what the service's own Python needs: jobs may be run by it.
"""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import schedulearn
from schedulearn.executors.common.paths import JobPaths
from schedulearn.executors.common.sitehook import hook_folder
from schedulearn.executors.process import cgroups as permitted
from schedulearn.executors.process import confine

_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")
_SIZE = 0.5  # of the machine's memory that files in private folders may take; a memory limit counts them, too


@dataclass(frozen=True, slots=True)
class User:
    """Whom a worker runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    def may_pass(self, folder: str) -> bool:
        info = Path(folder).stat()
        bit = 0o100 if info.st_uid == self.uid else 0o010 if info.st_gid in (self.gid, *self.groups) else 0o001
        return bool(info.st_mode & bit)


@dataclass(frozen=True, slots=True)
class Mounts:
    """Whether workers can be given mounts of their own on this machine."""

    possible: bool = False
    hide_processes: bool = False  # whether they can be kept from seeing the processes of others
    problem: str = "only a service that runs as root can make them"

    def view(self, job: JobPaths, user: User, masked: Sequence[str] = ()) -> dict[str, Any] | None:
        """For the shim; None: the worker sees what its user sees."""
        if not self.possible:
            return None
        private = _existing(_PRIVATE)
        covered = [path for path in _existing([str(job.root), *_homes()]) if path not in private]
        shown = [(str(job.folder), True), (str(hook_folder(job.root)), False)]
        shown += [
            (path, False) for path in _python() if not any(_within(other, path) for other in (*private, *covered))
        ]
        shown = [(name, writable) for path, writable in shown for name in dict.fromkeys((path, os.path.realpath(path)))]
        blocked = [os.path.realpath(folder) for path, _ in shown if (folder := _blocking(path, user))]
        covered = [path for path in _outermost([*covered, *blocked]) if not any(_within(path, p) for p in private)]
        return {
            "private": private,
            "covered": covered,
            "shown": _shown(shown, [*private, *covered]),
            "masked": list(masked),
            "size": int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SIZE),
            "hide_processes": self.hide_processes,
        }


NO_MOUNTS = Mounts()


def isolation(own_users: str, has_gpus: bool) -> list[str]:
    """What separates workers from each other, in words for their administrator.

    `own_users`: which uids workers have; "" where they run as the service itself.
    """
    cgroups, mounts = permitted.detect(), detect_mounts()
    held = permitted.held_to(cgroups)
    groups = f"control groups: {', '.join(held)}" if held else "no control groups"
    if not own_users:
        rights = ["no capabilities, no new privileges"] if os.geteuid() != 0 else []
        return ["workers run as the service's own user, one domain of trust", *rights, groups]
    words = [f"own uids: {own_users}", "no capabilities, no new privileges"]
    if mounts.possible:
        hidden = "the data folder, the service's home" + (" and others' processes" if mounts.hide_processes else "")
        words.append(f"own mounts: {hidden} hidden; private /tmp, /var/tmp, /dev/shm")
    else:
        words.append(f"no own mounts: {mounts.problem}")
    if has_gpus and (mounts.possible or cgroups.devices):
        words.append("GPUs of others denied")
    return [*words, groups]


@cache
def detect_mounts() -> Mounts:
    """Tried once, in a process of its own."""
    if os.geteuid() != 0:
        return NO_MOUNTS
    tried = subprocess.run([sys.executable, "-I", "-S", confine.__file__], capture_output=True, text=True, check=False)
    if tried.returncode > 1:
        problem = (tried.stdout or tried.stderr).strip().splitlines()[-1:]
        return Mounts(problem=f"the system does not permit it ({''.join(problem)})")
    return Mounts(True, tried.returncode == 0 and not _mounted_below("/proc"), "")


def _mounted_below(folder: str) -> bool:
    """Whether something is mounted there that another mount of the folder would uncover."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4].startswith(f"{folder}/") for line in lines)


def _homes() -> list[str]:
    """Of the service's own user."""
    found = {os.environ.get("HOME", "")}
    with suppress(KeyError):
        found.add(pwd.getpwuid(os.geteuid()).pw_dir)
    return sorted(path for path in found if Path(path).is_absolute() and os.path.realpath(path) != "/")


@cache
def _python() -> list[str]:
    """The folders of this interpreter, of its packages and of our own."""
    executable = Path(os.path.realpath(sys.executable))
    package = Path(schedulearn.__file__).parent
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    named = [*own, str(executable.parent.parent), str(package)]
    return sorted(set(named))


def _existing(paths: Iterable[str]) -> list[str]:
    """Their true names."""
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if Path(path).exists()))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _outermost(paths: Iterable[str]) -> list[str]:
    """Without those within others."""
    chosen = set(paths)
    return sorted(p for p in chosen if not any(p != other and _within(p, other) for other in chosen))


def _blocking(path: str, user: User) -> str | None:
    """The first folder on the way to it that this user may not pass."""
    return next((str(folder) for folder in reversed(Path(path).parents) if not user.may_pass(str(folder))), None)


def _shown(wanted: Sequence[tuple[str, bool]], covers: Sequence[str]) -> list[tuple[str, str, bool]]:
    """(what, where, writable) of those that a cover would hide. One within another comes with it."""
    hidden = [(path, writable) for path, writable in wanted if any(_within(path, cover) for cover in covers)]
    outer = set(_outermost(path for path, _ in hidden))
    return [(os.path.realpath(path), path, writable) for path, writable in hidden if path in outer]
