"""What the administrator decided for all containers, and what of a job is refused because of it."""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.ports import Launch

WORK, CHECKPOINT, CONTROL = "/work", "/checkpoint", "/schedulearn"  # the same paths in every container
NOBODY = 65534
ENGINE_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
_OURS = (WORK, CHECKPOINT, CONTROL)


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for every job on an engine."""

    uid: int = NOBODY  # of jobs whose user was given none
    gid: int = NOBODY
    mounts: tuple[str, ...] = ()  # host paths below which jobs may mount; with :rw at the end also to write
    shared_checkpoints: str = ""  # a folder that is the same on every server; "": checkpoints are copied
    network: str | None = None  # None: bridge, or host where the engine has no bridge
    processes: int = 4096  # of one worker, threads included: a runaway fork must not take the machine with it
    shm: int = 1 << 30  # bytes of /dev/shm for jobs that do not say: Docker's own 64 MB stop many data loaders
    log_size: int = 16 << 20  # bytes of one file of output that the engine keeps
    log_files: int = 4  # with fewer than two, following breaks at each rotation


@dataclass(frozen=True, slots=True)
class Bind:
    """A folder of the host that a container sees."""

    source: str
    target: str
    read_only: bool = True


def identity(launch: Launch, rules: Rules) -> tuple[int, int]:
    """The uid and gid that a container runs as: what the administrator gave the user, never root."""
    if launch.uid is None:
        uid, gid = rules.uid, rules.gid
    else:
        uid, gid = launch.uid, launch.uid if launch.gid is None else launch.gid
    if uid <= 0 or gid <= 0:
        raise ExecutorError(f"containers never run as root: give the user another uid and gid than {uid}:{gid}")
    return uid, gid


def binds(launch: Launch, rules: Rules) -> list[Bind]:
    """The job's mounts; ExecutorError if one is not below a path that the administrator allows."""
    return checked_mounts(launch.spec.mounts, rules)


def checked_mounts(mounts: Iterable[str], rules: Rules) -> list[Bind]:
    return [_checked(parse_mount(text), text, rules) for text in mounts]


def parse_mount(text: str) -> Bind:
    """`/data`, `/data:/inside` or `/data:/inside:rw`; read-only unless it says otherwise."""
    source, *rest = text.split(":")
    writable = bool(rest) and rest[-1] in ("ro", "rw") and rest.pop() == "rw"
    target = rest.pop() if rest else source
    if rest or not all(_is_plain(path) for path in (source, target)):
        raise ExecutorError(f"the mount {text!r} is not PATH, PATH:PATH or PATH:PATH:rw with absolute paths")
    return Bind(source, target, not writable)


def _is_plain(path: str) -> bool:
    return path.startswith("/") and posixpath.normpath(path) == path and not path.startswith("//")


def _checked(bind: Bind, text: str, rules: Rules) -> Bind:
    allowed = [parse_allowed(path) for path in rules.mounts]
    fitting = [may_write for path, may_write in allowed if _is_below(bind.source, path)]
    if not fitting:
        known = ", ".join(path for path, _ in allowed) or "none"
        raise ExecutorError(f"the mount {text!r} is not below a path that the administrator allows ({known})")
    if not bind.read_only and not any(fitting):
        raise ExecutorError(f"the mount {text!r} may only be read")
    if any(_is_below(socket, bind.source) for socket in ENGINE_SOCKETS):
        raise ExecutorError(f"the mount {text!r} would show the engine's socket to the job")
    if any(_is_below(ours, bind.target) or _is_below(bind.target, ours) for ours in _OURS):
        raise ExecutorError(f"the mount {text!r} would hide what Schedulearn puts into the container")
    return bind


def parse_allowed(path: str) -> tuple[str, bool]:
    return path.removesuffix(":rw"), path.endswith(":rw")


def _is_below(path: str, parent: str) -> bool:
    return PurePosixPath(path).is_relative_to(parent)
