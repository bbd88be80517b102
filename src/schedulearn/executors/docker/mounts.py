"""What of its server's files a job may mount: decided by the administrator's rules, then looked up on the server.

What can write in a folder can put a link there, and the server follows it when it mounts. So of a folder that jobs
may write to only the folder itself can be mounted; below one that they may only read also what is in it, if nothing on
the way is a link. That is looked up on the engine's own machine, through a container that is never started.
"""

import os
import posixpath
import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schedulearn.core.domain.errors import ExecutorError, InvalidSpec
from schedulearn.executors.docker.calls import Refused, WrongState
from schedulearn.executors.docker.containers import FOLDER_BIT, SPECIAL_BITS, Containers, is_link
from schedulearn.executors.docker.images import Images
from schedulearn.executors.docker.names import LOOK, helper_labels, look_name
from schedulearn.executors.docker.rules import CHECKPOINT, CONTROL, WORK

# Of a server: its kernel and its devices, its sockets (the engine's among them), its passwords, the engine's own data.
# Neither they nor anything in them is ever mounted, nor a folder that holds them.
_NEVER = ("/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/boot", "/var/lib/docker", "/var/lib/containerd")
_HIDES = (WORK, CHECKPOINT, CONTROL, "/proc", "/sys", "/dev")  # nothing is mounted on these, in them or above them
_ENGINES_OWN = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")  # files that the engine mounts itself
MOST = 32  # of one job: each is looked up on the server
_DEEPEST = 64  # folders in one
_TRIES, _PAUSE = 5, 1.0  # times, with seconds between, to look once more where the engine could not


@dataclass(frozen=True, slots=True)
class Bind:
    """A folder or file of the host that a container sees."""

    source: str
    target: str
    read_only: bool = True

    def option(self, propagation: str = "rprivate") -> Any:
        """For the engine. What is mounted below the source on the server is not part of it, now or later."""
        from docker.types import Mount

        mount = Mount(self.target, self.source, "bind", self.read_only, propagation=propagation)
        mount["BindOptions"]["NonRecursive"] = True
        return mount


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of the servers that jobs may mount; `writable`: also to write."""

    path: str
    writable: bool

    @classmethod
    def parse(cls, text: str) -> "Root":
        return cls(text.removesuffix(":rw"), text.endswith(":rw"))


# --- the administrator's side


def check_roots(allowed: Iterable[str], private: Iterable[Path], field: str = "--allow-mounts") -> None:
    """InvalidSpec if jobs must not be let in there. `private` are folders of the service itself, on this machine."""
    roots = [(text, Root.parse(text)) for text in allowed]
    ours = {str(path) for folder in private for path in (folder, folder.resolve())}
    for text, root in roots:
        if not _is_plain(root.path) or ":" in root.path:
            raise InvalidSpec(field, f"{text!r} cannot be allowed", "a plain absolute path such as /data, or /data:rw")
        for path in {root.path, os.path.realpath(root.path)}:  # on this machine, which may be the engine's
            _check_harmless(text, path, ours, field)
        for _, other in roots:
            if other.writable and other.path != root.path and _is_below(root.path, other.path):
                problem = f"{text!r} lies in {other.path}, where jobs may write: one could put a link in its place"
                raise InvalidSpec(field, problem, "folders that jobs cannot replace")


def _check_harmless(text: str, path: str, ours: Iterable[str], field: str) -> None:
    for never in _NEVER:
        if _overlap(path, never):
            problem = f"{text!r} would let jobs at {never} of their server"
            raise InvalidSpec(field, problem, "folders with data alone, such as /data")
    for folder in ours:
        if _overlap(path, folder):
            problem = f"{text!r} would let jobs at the service's own files in {folder}"
            raise InvalidSpec(field, problem, "folders with data alone, such as /data")


# --- a job's side


def checked_mounts(mounts: Sequence[str], allowed: Sequence[str]) -> list[Bind]:
    """The job's mounts; ExecutorError if one is not what the administrator allows."""
    if len(mounts) > MOST or any(text.count("/") > _DEEPEST for text in mounts):
        raise ExecutorError(f"there are too many mounts, or too deep ones: at most {MOST} can be looked up")
    roots = [Root.parse(text) for text in allowed]
    found = [_checked(parse_mount(text), text, roots) for text in mounts]
    targets = [bind.target for bind in found]
    for bind, text in zip(found, mounts, strict=True):
        if any(_is_below(bind.target, other) for other in targets if other != bind.target):
            raise ExecutorError(f"the mount {text!r} is inside of another mount")
        if targets.count(bind.target) > 1:
            raise ExecutorError(f"two mounts have the same place in the container: {bind.target}")
    return found


def concealed(words: str, mounts: Sequence[str]) -> str:
    """Why a job was not started, as all may read it: which paths it mounts is hidden, each has its number."""
    for number, text in ((n, text) for n, text in enumerate(mounts, 1) if text.startswith("/")):
        source = text.partition(":")[0]
        above = [str(path) for path in PurePosixPath(source).parents if path.name]
        names = {f"the mount {text!r}": f"mount {number}", f"the mount {source!r}": f"mount {number}"}
        names |= {text: f"mount {number}", source: f"mount {number}"}
        names |= dict.fromkeys(above, f"a folder on the path of mount {number}")
        for path, name in names.items():  # the longest first
            words = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", name, words)
    return words


def parse_mount(text: str) -> Bind:
    """`/data`, `/data:/inside` or `/data:/inside:rw`; read-only unless it says otherwise."""
    source, *rest = text.split(":")
    writable = bool(rest) and rest[-1] in ("ro", "rw") and rest.pop() == "rw"
    target = rest.pop() if rest else source
    if rest or not all(_is_plain(path) for path in (source, target)):
        raise ExecutorError(f"the mount {text!r} is not PATH, PATH:PATH or PATH:PATH:rw with absolute paths")
    return Bind(source, target, not writable)


def _checked(bind: Bind, text: str, roots: Sequence[Root]) -> Bind:
    if not any(_is_below(bind.source, root.path) for root in roots):
        known = ", ".join(root.path for root in roots) or "none"
        raise ExecutorError(f"the mount {text!r} is not below a path that the administrator allows ({known})")
    if any(_overlap(bind.source, never) for never in _NEVER):
        raise ExecutorError(f"the mount {text!r} would show the job what belongs to its server")
    _check_links(bind.source, text, roots)
    if not bind.read_only and Root(bind.source, True) not in roots:
        raise ExecutorError(f"the mount {text!r} may only be read")
    hidden = any(_overlap(bind.target, path) for path in _HIDES)
    if hidden or any(_is_below(path, bind.target) for path in _ENGINES_OWN):
        raise ExecutorError(f"the mount {text!r} would hide what Schedulearn or the engine puts into the container")
    return bind


def _check_links(source: str, text: str, roots: Sequence[Root]) -> None:
    """Nothing on the way to it may be changed by a job."""
    exact = any(root.path == source for root in roots)
    for root in (root for root in roots if root.writable and root.path != source):
        if _is_below(source, root.path):
            raise ExecutorError(
                f"the mount {text!r} lies in {root.path}, where jobs may write: only {root.path} itself can be mounted"
            )
        if not exact and _is_below(root.path, source):
            raise ExecutorError(f"the mount {text!r} holds {root.path}, where jobs may write: mount that by itself")


def _is_plain(path: str) -> bool:
    return (
        path.startswith("/") and posixpath.normpath(path) == path and not path.startswith("//") and path.isprintable()
    )


def _is_below(path: str, parent: str) -> bool:
    return PurePosixPath(path).is_relative_to(parent)


def _overlap(one: str, other: str) -> bool:
    return _is_below(one, other) or _is_below(other, one)


# --- on the server itself


class HostPaths:
    """What paths of an engine's machine are, seen through a container that is made for it and never started."""

    def __init__(self, containers: Containers, images: Images) -> None:
        self._containers, self._images = containers, images
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        # A look has the server's folders mounted in one another. Of several at once each has the others', too:
        # with ten of them the kernel has no room for more mounts.
        self._turn = threading.Lock()

    def check(self, binds: Sequence[Bind], image: str, who: str) -> None:
        """ExecutorError if one is not there, leads through a link, or is the engine's own. `who`: the worker."""
        if not binds:
            return
        engine = self._containers.calls.socket
        for bind in binds:
            if any(path and _overlap(bind.source, path) for path in (self._images.data_root(), engine)):
                raise ExecutorError(f"the mount {bind.source!r} would show the job what belongs to its engine")
        with self._lock:
            self._busy.add(who)
        try:
            for source in sorted({bind.source for bind in binds}):
                self._look(source, image, who)
        finally:
            with self._lock:
                self._busy.discard(who)

    def in_use(self, who: str) -> bool:
        with self._lock:
            return who in self._busy

    def _look(self, source: str, image: str, who: str) -> None:
        """Again where the engine could not show it: only what it says of a path is the job's own matter."""
        for last in (*[False] * _TRIES, True):
            try:
                with self._turn:
                    self._look_once(source, image, who)
                return
            except Refused as refusal:
                if last or (refusal.status < 500 and not isinstance(refusal, WrongState)):
                    words = f"what the job wants to mount cannot be found on this server: {refusal}"
                    raise ExecutorError(words) from refusal
            time.sleep(_PAUSE)

    def _look_once(self, source: str, image: str, who: str) -> None:
        """Each folder on the way is shown by itself, so that what is mounted on one of them is seen as well."""
        steps = [str(path) for path in (*_above(source), PurePosixPath(source))]
        name = look_name(self._containers.instance, who)
        self._containers.remove(name)
        place = f"/{secrets.token_hex(16)}"  # where no link of the image can lie
        places = {posixpath.dirname(step): f"{place}/{number}" for number, step in enumerate(steps)}
        container = self._containers.create(self._options(name, image, who, places))
        try:
            for step in steps:
                seen_as = posixpath.join(places[posixpath.dirname(step)], posixpath.basename(step))
                _check_step(step, self._containers.look_at(container, seen_as, strict=True), is_end=step == source)
        finally:
            self._containers.remove(container)

    def _options(self, name: str, image: str, who: str, places: dict[str, str]) -> dict[str, Any]:
        return {
            "image": image,
            "name": name,
            "labels": helper_labels(self._containers.instance, LOOK, who),
            "entrypoint": ["/never-started"],
            "host_config": {
                "network_mode": "none",
                # Above its own data the engine takes only what it can still unmount.
                "mounts": [Bind(folder, place).option("rslave") for folder, place in places.items()],
            },
        }


def _above(path: str) -> list[PurePosixPath]:
    """The folders on the way, from the top, without the root of all."""
    return list(PurePosixPath(path).parents)[-2::-1]


def check_places(binds: Sequence[Bind], containers: Containers, container: str) -> None:
    """ExecutorError if a link of its image leads a mount of this container to where it should not be.

    The engine follows it, and fills and fetches as root what lies in the job's folders.
    """
    steps = {step for bind in binds for step in (*_above(bind.target), PurePosixPath(bind.target))}
    for step in sorted(steps):
        there = containers.look_at(container, str(step))
        if there and is_link(there):
            raise ExecutorError(f"{step} is a link in the image: a mount must name the path that it leads to")


def _check_step(step: str, there: Mapping[str, Any] | None, is_end: bool) -> None:
    if there is None:
        raise ExecutorError(f"there is no {step} on this server")
    mode: int = there["mode"]
    if is_link(there):
        raise ExecutorError(f"{step} is a link on this server, and links are not followed: name the path it leads to")
    if mode & SPECIAL_BITS or not (is_end or mode & FOLDER_BIT):
        raise ExecutorError(f"{step} is neither a folder nor a plain file on this server")
