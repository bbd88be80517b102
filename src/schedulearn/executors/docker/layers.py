"""Images prepared by the `setup` lines of jobs: made once on each engine, then found again by their content.

The lines run in a container of the job's image as its root, but with few rights, and see nothing of the host. What
they leave is kept as an image whose name says what went in: the image below, the lines, the project's files they name.
"""

import hashlib
import json
import posixpath
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from schedulearn.domain.errors import ExecutorError
from schedulearn.executors.common.archive import Entry, pack
from schedulearn.executors.docker.containers import Containers
from schedulearn.executors.docker.images import Images
from schedulearn.executors.docker.names import INSTANCE, SETUP, setup_name
from schedulearn.executors.docker.options import confinement
from schedulearn.executors.docker.output import STAMP, Output
from schedulearn.executors.docker.rules import Rules

REPOSITORY = "schedulearn-setup"
FOLDER = "/schedulearn-setup"  # where the project's files are while the lines run
_ROOT = (0, 0)
_LOOK = 0.2  # seconds between two looks whether the image is still wanted
# Enough to install packages; not to mount, to trace, or to use the network in odd ways.
_RIGHTS = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"]
_PIP = "python3 -m pip install --no-input --disable-pip-version-check --break-system-packages --root-user-action=ignore"


class Unwanted(ExecutorError):
    """The job was stopped before it was started."""

    def __init__(self) -> None:
        super().__init__("it was stopped before it was started")


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
        return digest.hexdigest()[:24]

    @property
    def script(self) -> str:
        """Stops at the first line that fails."""
        commands = [_command(line) for line in self.lines]
        shown = [f"echo {shlex.quote(f'+ {command}')}\n{command}" for command in commands]
        return "\n".join(["set -e", f"cd {FOLDER}", *shown, "cd /", f"rm -rf {FOLDER}"])


def setup_of(lines: tuple[str, ...], project: Path) -> Setup:
    """The lines with all files of the project that they, or requirements files among these, name by path."""
    files: dict[str, tuple[bytes, int]] = {}
    waiting = [word for line in lines for word in _words(line)]
    seen: set[str] = set()
    while waiting:
        word = waiting.pop()
        if word in seen:
            continue
        seen.add(word)
        for path, inside in _named(project, word):
            files[inside] = path.read_bytes(), path.stat().st_mode & 0o777
            if inside.endswith(".txt"):
                waiting += _words(files[inside][0].decode("utf-8", "replace"))
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


def _named(project: Path, word: str) -> Iterator[tuple[Path, str]]:
    """The files at a path, all of them if it is a folder. Links are not followed out of the project, nor at all."""
    pure = PurePosixPath(word)
    if pure.is_absolute() or ".." in pure.parts or word == ".":
        return
    start = project / pure
    if any((project / parent).is_symlink() for parent in (pure, *pure.parents)):
        return
    found = sorted(start.rglob("*")) if start.is_dir() else [start]
    for path in found:
        if path.is_file() and not path.is_symlink():
            yield path, str(path.relative_to(project))


class Layers:
    """Makes prepared images on one engine; two jobs that need the same one wait for each other."""

    def __init__(self, containers: Containers, images: Images, rules: Rules) -> None:
        self._containers, self._images, self._rules = containers, images, rules
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def ready(
        self, image: dict[str, Any], setup: Setup, memory: int | None, output: Output, unwanted: threading.Event
    ) -> dict[str, Any]:
        """The prepared image; what the lines print goes to `output`. ExecutorError if one fails."""
        key = setup.key(image["Id"])
        name = f"{REPOSITORY}:{key}"
        if found := self._images.find(name):
            return found
        with self._lock:
            alone = self._locks.setdefault(key, threading.Lock())
        if not alone.acquire(blocking=False):
            output.note("waiting for the image that another job prepares")
            alone.acquire()
        try:
            found = self._images.find(name)
            if found is None:
                output.note("preparing the image; the next job with the same setup will find it ready")
                self._make(key, image, setup, memory, output, unwanted)
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
        memory: int | None,
        output: Output,
        unwanted: threading.Event,
    ) -> None:
        name = setup_name(self._containers.instance, key)
        self._containers.remove(name)  # of a service that was killed while it made this image
        container = self._containers.create(self._options(name, key, image, setup, memory))
        try:
            entries = [Entry(FOLDER[1:])]
            entries += [Entry(f"{FOLDER[1:]}/{path}", content=data, mode=mode) for path, data, mode in setup.files]
            self._containers.put(container, pack(_with_folders(entries), _ROOT))
            self._containers.start(container)
            self._copy(container, output, unwanted)
            state = self._containers.find(container)
            if state is None or state.exit_code != 0:
                code = "it was removed" if state is None else f"exit code {state.exit_code}"
                raise ExecutorError(f"setup failed ({code}): the log says why")
            self._containers.commit(container, REPOSITORY, key, _as_before(image, key))
        finally:
            self._containers.remove(container)

    def _copy(self, container: str, output: Output, unwanted: threading.Event) -> None:
        """Until the lines have run, or nobody wants them any more."""
        frames, done = self._containers.output(container, None, follow=True), threading.Event()

        def interrupt() -> None:
            while not done.wait(_LOOK):
                if unwanted.is_set():
                    frames.end()

        threading.Thread(target=interrupt, name="setup-interrupt", daemon=True).start()
        try:
            for frame in self._containers.calls.stream(frames):
                output.add(frame[STAMP:])
        finally:
            done.set()
        if unwanted.is_set():
            raise Unwanted

    def _options(self, name: str, key: str, image: dict[str, Any], setup: Setup, memory: int | None) -> dict[str, Any]:
        from docker.types import LogConfig

        network = self._rules.network or self._images.usual_network()
        rotation = {"max-size": str(self._rules.log_size), "max-file": str(self._rules.log_files)}
        host = confinement(self._rules, network) | {
            "cap_add": _RIGHTS,
            "log_config": LogConfig(type="json-file", config=rotation),
        }
        if memory is not None:
            host |= {"mem_limit": memory, "memswap_limit": memory}
        # What the image has none of cannot be taken away again when the container is kept as an image.
        place = "entrypoint" if _config(image).get("Entrypoint") else "command"
        return {
            "image": image["Id"],
            "name": name,
            "labels": {INSTANCE: self._containers.instance, SETUP: key},
            "user": "0:0",
            place: ["/bin/sh", "-c", setup.script],
            "host_config": host,
        }


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
