"""Programs of an ordinary user, where tests are root's."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import schedulearn
from schedulearn.executors.process.view import User, detect_mounts

UID = 64_123  # nobody's
_TRY = "import schedulearn.cli.main, schedulearn.service.runtime, schedulearn.api.server"


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Who starts programs: a user without any rights, or whoever runs the tests, if that is no root."""

    home: Path  # a folder of that user's
    uid: int
    gid: int
    through: list[str] = field(default_factory=list)  # words that make a command that user's

    def run(self, *words: str) -> str:
        """What a command says, whatever comes of it."""
        return subprocess.run([*self.through, *words], capture_output=True, text=True, check=False).stdout


def ordinary(home: Path) -> Ordinary:
    """An ordinary user with this home. Skips where such a one cannot be, or cannot reach the Python of these tests."""
    if os.geteuid() != 0:
        return Ordinary(home, os.geteuid(), os.getegid())
    if not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("setpriv and unshare are needed to become an ordinary user")
    os.chown(home, UID, UID)
    made = Ordinary(home, UID, UID, _through(home))
    tried = subprocess.run([*made.through, sys.executable, "-c", _TRY], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"an ordinary user cannot reach {sys.executable}: {tried.stderr.strip()[-200:]}")
    return made


def _through(home: Path) -> list[str]:
    """As `su` does it. No right is taken away that an ordinary user could gain: that is the business of the service.

    Folders on the way to this Python that are closed to others, as a home may be, are covered by others that have in
    them nothing but the way.
    """
    user = User(UID, UID)
    if found := _closed(home, user):
        pytest.skip(f"closed to ordinary users: {found}")
    needed = {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, Path(schedulearn.__file__).parents[1])}
    closed = {path: found for path in needed if (found := _closed(path, user))}
    if closed and not detect_mounts().possible:
        pytest.skip(f"closed to ordinary users: {', '.join(sorted(map(str, closed.values())))}")
    steps = ["set -e", f"export HOME={shlex.quote(str(home))}"]
    stage = home.with_name(f"{home.name}-python")
    stage.mkdir(mode=0o755, exist_ok=True)
    if closed:
        steps.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(stage))}")
    for number, path in enumerate(closed):
        at, where = shlex.quote(f"{stage}/{number}"), shlex.quote(str(path))
        steps += [f"mkdir {at}", f"mount --bind {where} {at}"]
    steps += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(folder))}" for folder in sorted(set(closed.values()))]
    for number, path in enumerate(closed):
        at, where = shlex.quote(f"{stage}/{number}"), shlex.quote(str(path))
        steps += [f"mkdir -p {where}", f"mount --bind {at} {where}"]
    steps.append(f'exec setpriv --reuid {UID} --regid {UID} --clear-groups -- "$@"')
    private = ["unshare", "--mount", "--propagation", "slave"] if closed else []
    return [*private, "sh", "-c", "\n".join(steps), "sh"]


def _closed(path: Path, user: User) -> Path | None:
    """The first folder on the way there that others may not pass."""
    return next((folder for folder in [*reversed(path.parents), path] if not user.may_pass(str(folder))), None)
