"""Images prepared by the `setup` lines of jobs: made once on each engine, then found again by their content.

The lines run in a container of the job's image as its root, but with few rights, and see nothing of the host. What
they leave is kept as an image whose name says what went in: the image below, the lines, the project's files they name.
"""

import hashlib
import json
import posixpath
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.units import format_duration, format_size
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.archive import Entry, pack
from schedulearn.executors.common.base import Unreachable, Unwanted
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.images import Images
from schedulearn.executors.docker.names import SETUP, helper_labels, setup_name
from schedulearn.executors.docker.networks import SHARED, Networks, setup_network
from schedulearn.executors.docker.options import confinement, limit_options
from schedulearn.executors.docker.output import STAMP, Output
from schedulearn.executors.docker.rules import Rules

REPOSITORY = "schedulearn-setup"
FOLDER = "/schedulearn-setup"  # where the project's files are while the lines run
_ROOT = (0, 0)
_LOOK = 0.2  # seconds between two looks whether the image is still wanted
_COUNT = 10.0  # seconds between two looks at what the lines have written
# Enough to install packages; not to mount, to trace, or to use the network in odd ways.
_RIGHTS = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"]
_MOST_FILES = 256 * 1000**2  # bytes of the project's files: they are held in memory
_MOST_TEXT = 1000**2  # bytes of requirements files that are searched for further names
_PIP = "python3 -m pip install --no-input --disable-pip-version-check --break-system-packages --root-user-action=ignore"


@dataclass(frozen=True, slots=True)
class Setup:
    """What is to be done to an image, and with which of the project's files."""

    lines: tuple[str, ...]
    files: tuple[tuple[str, bytes, int], ...]  # path, content, mode

    def key(self, image: str) -> str:
        """The same for the same image, lines and files."""
        digest = hashlib.sha256(json.dumps([image, self.lines]).encode())
        for path, content, mode in self.files:
            digest.update(json.dumps([path, mode, len(content)]).encode() + content)
        return digest.hexdigest()  # whole: a shorter one could be met on purpose, and its image is others', too

    @property
    def script(self) -> str:
        """Stops at the first line that fails. Others read what it prints, too: it tells the numbers of the lines."""
        count = len(self.lines)
        shown = [f"echo '+ setup, line {n} of {count}'\n{_command(line)}" for n, line in enumerate(self.lines, 1)]
        return "\n".join(["set -e", f"cd {FOLDER}", *shown, "cd /", f"rm -rf {FOLDER}"])


def check_awaited(unwanted: threading.Event, closed: threading.Event) -> None:
    """Whether what takes long is still to be done. `closed`: the service ends, and the next life begins anew."""
    if unwanted.is_set():
        raise Unwanted
    if closed.is_set():
        raise Unreachable("the service ends")


def setup_of(lines: tuple[str, ...], project: Path) -> Setup:
    """The lines with all files of the project that they, or requirements files among these, name by path."""
    files: dict[str, tuple[bytes, int]] = {}
    waiting = [word for line in lines for word in _words(line)]
    seen: set[str] = set()
    left, text_left = _MOST_FILES, _MOST_TEXT
    with Tree(project) as tree:
        while waiting:
            word = waiting.pop()
            if word in seen:
                continue
            seen.add(word)
            for path, data, mode in _named(tree, word, left):
                left -= len(data)
                files[path] = data, mode
                if path.endswith(".txt") and len(data) <= text_left:
                    text_left -= len(data)
                    waiting += _words(data.decode("utf-8", "replace"))
    return Setup(lines, tuple((path, *files[path]) for path in sorted(files)))


def _command(line: str) -> str:
    """The name of a requirements file stands for its installation."""
    return f"{_PIP} -r {shlex.quote(line)}" if _is_requirements(line) else line


def _is_requirements(line: str) -> bool:
    return line.endswith(".txt") and len(line.split()) == 1


def _words(text: str) -> list[str]:
    """Whatever could be a path; `--find-links=wheels` names one, too."""
    words = text.replace("=", " ").replace('"', " ").replace("'", " ").split()
    return [posixpath.normpath(word) for word in words]


def _named(tree: Tree, word: str, most: int) -> Iterator[tuple[str, bytes, int]]:
    """Path, content and mode of the file at a path; of all files in it if it is a folder. No link is followed."""
    pure = PurePosixPath(word)
    if pure.is_absolute() or ".." in pure.parts or word == "." or "\0" in word:
        return
    for found in tree.at(pure.parts):
        opened = found.open() if found.is_file else None
        if opened is None:
            continue
        with open(opened, "rb") as file:
            data = file.read(most + 1) if found.info.st_size <= most else None
        if data is None or len(data) > most:  # the second: it grew meanwhile
            raise ExecutorError(f"setup names more than {format_size(_MOST_FILES)} of the project's files")
        most -= len(data)
        yield str(PurePosixPath(*found.parts)), data, found.info.st_mode & 0o777


@dataclass(frozen=True, slots=True)
class Means:
    """What a container that prepares an image may use."""

    seconds: float
    cpus: float
    memory: int  # bytes
    disk: int  # bytes


def means_of(launch: Launch, rules: Rules, cores: float, memory: int) -> Means:
    """As much as the job itself, and never the whole machine: `cores` and `memory` are what that has."""
    asked = launch.spec.resources
    return Means(
        rules.setup_seconds,
        min(cores, max(rules.setup_cpus, asked.cpus_max)),
        asked.memory or min(rules.setup_memory, memory // 2),
        rules.setup_disk,
    )


class Layers:
    """Makes prepared images on one engine; two jobs that need the same one wait for each other."""

    def __init__(
        self, containers: Containers, images: Images, networks: Networks, rules: Rules, closed: threading.Event
    ) -> None:
        self._containers, self._images, self._networks, self._rules = containers, images, networks, rules
        self._closed = closed  # the service ends: the next life begins anew
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def ready(
        self, image: dict[str, Any], setup: Setup, means: Means, output: Output, unwanted: threading.Event
    ) -> dict[str, Any]:
        """The prepared image; what the lines print goes to `output`. ExecutorError if one fails, or takes too much."""
        key = setup.key(image["Id"])
        name = f"{REPOSITORY}:{key}"
        if found := self._images.find(name):
            return found
        with self._lock:
            alone = self._locks.setdefault(key, threading.Lock())
        if not alone.acquire(blocking=False):
            output.note("waiting for the image that another job prepares")
            while not alone.acquire(timeout=_LOOK):
                check_awaited(unwanted, self._closed)
        try:
            found = self._images.find(name)
            if found is None:
                output.note("preparing the image; the next job with the same setup will find it ready")
                self._make(key, image, setup, means, output, unwanted)
                found = self._images.find(name)
        finally:
            alone.release()
        if found is None:
            raise ExecutorError("the image that was prepared is gone")
        return found

    def being_made(self, key: str) -> bool:
        """Whether a container that prepares this image is in use."""
        lock = self._locks.get(key)
        return lock is not None and lock.locked()

    def _make(
        self,
        key: str,
        image: dict[str, Any],
        setup: Setup,
        means: Means,
        output: Output,
        unwanted: threading.Event,
    ) -> None:
        name = setup_name(self._containers.instance, key)
        self._containers.remove(name)  # of a service that was killed while it made this image
        with self._network(key) as network:
            container = self._containers.create(self._options(name, key, image, setup, means, network))
            try:
                entries = [Entry(FOLDER[1:])]
                entries += [Entry(f"{FOLDER[1:]}/{path}", content=data, mode=mode) for path, data, mode in setup.files]
                self._containers.put(container, pack(_with_folders(entries), _ROOT))
                self._containers.start(container)
                self._copy(container, means, output, unwanted)
                self._check_end(container, means)
                self._containers.commit(container, REPOSITORY, key, _as_before(image, key))
            finally:
                self._containers.remove(container)

    @contextmanager
    def _network(self, key: str) -> Iterator[str]:
        """Its own: what runs in it as root must be out of others' reach, and they out of its own."""
        usual = self._rules.network or self._images.usual_network()
        if self._rules.network or usual == SHARED:
            yield usual
            return
        whose = setup_network(key)
        try:
            yield self._networks.hold(whose, whose, 1).name
        finally:
            self._networks.let_go(whose, whose)

    def _check_end(self, container: str, means: Means) -> None:
        state = self._containers.find(container)
        if state is None:
            raise ExecutorError("setup failed (it was removed)")
        if state.alive:  # half an image must never be kept
            raise Unreachable("the engine stopped to tell what setup does")
        if state.out_of_memory and state.exit_code:
            raise ExecutorError(f"setup failed: it ran out of memory, of which it had {format_size(means.memory)}")
        if state.exit_code:
            raise ExecutorError(f"setup failed (exit code {state.exit_code}): the log says why")

    def _copy(self, container: str, means: Means, output: Output, unwanted: threading.Event) -> None:
        """Until the lines have run, have used up what they may, or are not wanted any more."""
        frames, done = self._containers.output(container, None, follow=True), threading.Event()
        watch = _Watch(self._containers, container, means)

        def interrupt() -> None:
            while not done.wait(_LOOK):
                if unwanted.is_set() or self._closed.is_set() or watch.over():
                    frames.end()

        threading.Thread(target=interrupt, name="setup-interrupt", daemon=True).start()
        try:
            for frame in self._containers.calls.stream(frames):
                output.add(frame[STAMP:])
        finally:
            done.set()
        check_awaited(unwanted, self._closed)
        if watch.reason:
            raise ExecutorError(f"setup was ended: {watch.reason}")

    def _options(
        self, name: str, key: str, image: dict[str, Any], setup: Setup, means: Means, network: str
    ) -> dict[str, Any]:
        held = Limits(means.cpus, memory=means.memory)
        host = confinement(self._rules, network) | limit_options(held) | {"cap_add": _RIGHTS}
        # What the image has none of cannot be taken away again when the container is kept as an image.
        place = "entrypoint" if _config(image).get("Entrypoint") else "command"
        return {
            "image": image["Id"],
            "name": name,
            "labels": helper_labels(self._containers.instance, SETUP, key),
            "user": "0:0",
            place: ["/bin/sh", "-c", setup.script],
            "host_config": host,
        }


class _Watch:
    """Whether a container has used up its time, or its part of the disk."""

    def __init__(self, containers: Containers, container: str, means: Means) -> None:
        self._containers, self._container, self._means = containers, container, means
        self._end = time.monotonic() + means.seconds
        self._count_at = time.monotonic() + _COUNT
        self.reason = ""

    def over(self) -> bool:
        now = time.monotonic()
        if not self.reason and now >= self._end:
            self.reason = f"it took longer than {format_duration(self._means.seconds)} (up --setup-time)"
        if not self.reason and now >= self._count_at:
            with suppress(ExecutorError):  # it has ended, or the engine is busy
                if self._containers.written(self._container) > self._means.disk:
                    self.reason = f"it wrote more than {format_size(self._means.disk)}"
            self._count_at = time.monotonic() + _COUNT
        return bool(self.reason)


def _with_folders(entries: list[Entry]) -> Iterator[Entry]:
    """Folders come before what is in them."""
    made: set[PurePosixPath] = set()
    for entry in entries:
        for parent in reversed(PurePosixPath(entry.name).parents[:-1]):
            if parent not in made and parent != PurePosixPath(FOLDER[1:]):
                made.add(parent)
                yield Entry(str(parent), mode=0o755)
        yield entry


def _as_before(image: dict[str, Any], key: str) -> list[str]:
    """The prepared image starts as the one below it does, not with the lines."""
    config = _config(image)
    changes = [f"USER {config.get('User') or 'root'}", f"LABEL {SETUP}={key}"]
    changes += [f"ENTRYPOINT {json.dumps(config['Entrypoint'])}"] if config.get("Entrypoint") else []
    changes += [f"CMD {json.dumps(config['Cmd'])}"] if config.get("Cmd") else []
    return changes


def _config(image: dict[str, Any]) -> dict[str, Any]:
    return image.get("Config") or {}
