"""The containers of one service on one engine: found by name and label, and told what to do."""

import json
import signal
import threading
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from schedulearn.archive.pack import CHUNK
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.docker.calls import Calls, NotThere, Refused, WrongState, refusal
from schedulearn.executors.docker.frames import Frames
from schedulearn.executors.docker.names import INSTANCE, container_name

CREATED, PAUSED = "created", "paused"
_ALIVE = {"running", "paused", "restarting"}
# As the engine writes the mode of a file.
FOLDER_BIT, _LINK = 1 << 31, 1 << 27
SPECIAL_BITS = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19  # devices, pipes, sockets, and what is not known
_REMOVED = 2  # what became of a path
_MOST_CHANGES = 32 << 20  # bytes of the list of them


@dataclass(frozen=True, slots=True)
class State:
    """A container as its engine describes it."""

    id: str
    status: str  # created, running, paused, restarting, removing, exited, dead
    labels: Mapping[str, str]
    exit_code: int = 0
    out_of_memory: bool = False
    error: str = ""  # why it could not be started
    seconds: float = 0.0  # how long it ran, by its own machine's clock
    finished: float = 0.0  # when it ended, by that clock

    @property
    def alive(self) -> bool:
        return self.status in _ALIVE


class Containers:
    """Each method is one call, or fails as `Calls` does. What is there or gone already is no error."""

    def __init__(self, calls: Calls, instance: str) -> None:
        self.calls, self.instance = calls, instance
        self._standing: dict[str, list[Any]] = {}  # by name: a lock, and how many have or want it
        self._lock = threading.Lock()  # guards that

    @contextmanager
    def standing(self, name: str) -> Iterator[None]:
        """Meanwhile no other thread pauses this container, or starts a command in it.

        A command that begins while its container is being paused waits in the kernel for ever, and engines such as
        20.10 then answer nothing about this container any more, not even how to remove it.
        """
        with self._lock:
            held = self._standing.setdefault(name, [threading.Lock(), 0])
            held[1] += 1
        try:
            with held[0]:
                yield
        finally:
            with self._lock:
                held[1] -= 1
                if not held[1]:
                    del self._standing[name]

    def waiting(self, name: str) -> int:
        """How many have or want it for themselves."""
        with self._lock:
            return int(self._standing[name][1]) if name in self._standing else 0

    def name(self, worker: WorkerId) -> str:
        return container_name(self.instance, worker)

    def find(self, name: str) -> State | None:
        told = self.inspect(name)
        return _state(told) if told else None

    def inspect(self, name: str) -> Any:
        """All that the engine says of a container; None: there is none."""
        try:
            with self.calls.api() as api:
                return api.inspect_container(name)
        except NotThere:
            return None

    def ours(self) -> list[State]:
        """All of this service, whatever their state; without the details of their ends."""
        with self.calls.api() as api:
            listed = api.containers(all=True, filters={"label": f"{INSTANCE}={self.instance}"})
        return [State(entry["Id"], entry["State"], entry["Labels"] or {}) for entry in listed]

    def create(self, options: Mapping[str, Any]) -> str:
        """The id of a new container that does not run yet."""
        with self.calls.api() as api:
            known = {**options, "host_config": api.create_host_config(**options["host_config"])}
            ends = {
                name: api.create_endpoint_config(**end) for name, end in options.get("networking_config", {}).items()
            }
            if ends:
                known["networking_config"] = api.create_networking_config(ends)
            return str(api.create_container(**known)["Id"])

    def written(self, container: str) -> int:
        """Bytes that it has added to its image; the engine has to count them."""
        with self._get(f"containers/{container}/json", {"size": 1}) as answer:
            return int(answer.json().get("SizeRw") or 0)

    def start(self, container: str) -> None:
        with self.calls.api() as api:
            api.start(container)

    def kill(self, container: str, number: signal.Signals) -> None:
        """A paused one goes on first: the engine refuses to signal it."""
        for _ in range(2):
            with suppress(NotThere, WrongState), self.calls.api() as api:
                api.kill(container, signal=int(number))
                return
            self.resume(container)

    def pause(self, name: str) -> None:
        with self.standing(name):
            self._unless_so_already("pause", name)

    def resume(self, container: str) -> None:
        self._unless_so_already("unpause", container)

    def remove(self, container: str) -> None:
        """With all that is in it; if it runs, it is killed."""
        with suppress(NotThere, WrongState), self.calls.api() as api:  # the second: it is being removed
            api.remove_container(container, force=True, v=True)

    def put(self, container: str, chunks: Iterable[bytes]) -> None:
        """Unpack an archive at the container's root."""
        kept = _Kept(chunks)
        try:
            with self.calls.api() as api:
                api.put_archive(container, "/", iter(kept))
        except ExecutorError:
            if kept.error:  # not the engine's fault: our own files could not be read
                raise ExecutorError(f"the job's files cannot be read: {kept.error}") from kept.error
            raise

    def get(self, container: str, path: str) -> Iterator[bytes]:
        """An archive of a folder or file, also of a container that has ended. Refused (404) if it is not there."""
        with self.calls.api() as api:
            chunks, _ = api.get_archive(container, path, chunk_size=CHUNK)
        return self.calls.stream(chunks)

    def look_at(self, container: str, path: str, strict: bool = False) -> Mapping[str, Any] | None:
        """Name, size, mode, … of a file in a container; None if it is not there. Not `strict`: or cannot be seen."""
        with self.calls.api() as api:
            url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
            answer = api.head(url, params={"path": path}, timeout=api.timeout)
        told = answer.headers.get("X-Docker-Container-Path-Stat")
        if strict and not told and answer.status_code != 404:
            raise refusal(answer.status_code, f"the engine does not say what {path} is: {answer.reason}")
        found: Mapping[str, Any] | None = json.loads(b64decode(told)) if told else None
        return found

    def changed(self, container: str) -> list[str]:
        """The paths of all that its image does not have, or has otherwise. Those in a volume are not among them."""
        with self._get(f"containers/{container}/changes", {}) as answer:
            told = b""
            for chunk in self.calls.stream(answer.iter_content(CHUNK)):
                told += chunk
                if len(told) > _MOST_CHANGES:
                    raise ExecutorError("it has written too many files to list them")
        return [entry["Path"] for entry in json.loads(told) or () if entry["Kind"] != _REMOVED]

    def output(self, container: str, last: int | None, follow: bool = False) -> Frames:
        """The last pieces of output, or all that the engine still has; with `follow` also those to come."""
        about = {
            "stdout": 1,
            "stderr": 1,
            "timestamps": 1,
            "follow": int(follow),
            "tail": "all" if last is None else last,
        }
        return Frames(self._get(f"containers/{container}/logs", about))

    def commit(self, container: str, repository: str, tag: str, changes: list[str]) -> None:
        """Keep what is in a container as an image."""
        with self.calls.api() as api:
            api.commit(container, repository, tag, changes=changes)

    def saw_end(self, state: State) -> bool:
        """Whether the engine itself watched it end: it remembers the latest events since it was started."""
        about = {"since": int(state.finished) - 1, "until": int(state.finished) + 2}
        with self.calls.api() as api:
            events = api.events(**about, filters={"container": state.id, "event": "die"}, decode=True)
        return any(True for _ in self.calls.stream(events))

    def keeps_running(self) -> bool:
        """Whether containers live on while their engine is stopped."""
        with self.calls.api() as api:
            return bool(api.info().get("LiveRestoreEnabled"))

    def now(self) -> float:
        """By the clock of the engine's machine, to the second."""
        with self.calls.api() as api:
            answer = api.head(f"{api.base_url}/_ping", timeout=api.timeout)
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()

    def _get(self, path: str, about: Mapping[str, Any]) -> Any:
        """An answer whose content is still to come. The SDK would ask more than once, and cannot be interrupted."""
        with self.calls.api() as api:
            url = f"{api.base_url}/v{api.api_version}/{path}"
            answer = api.get(url, params=about, stream=True, timeout=api.timeout)
            if answer.status_code >= 400:
                with answer:
                    raise refusal(answer.status_code, str(answer.json().get("message") or answer.reason))
            return answer

    def _unless_so_already(self, call: str, container: str) -> None:
        try:
            with suppress(NotThere, WrongState), self.calls.api() as api:
                getattr(api, call)(container)
        except Refused as why:
            # The engine says 500 to a container that is not running.
            if not ("not running" in str(why) or "not paused" in str(why)):
                raise


def is_link(there: Mapping[str, Any]) -> bool:
    """Of what `look_at` says."""
    return bool(there["mode"] & _LINK)


class _Kept:
    """Passes chunks on and remembers what went wrong in making them: the library would blame the network."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        except Exception as error:
            self.error = error
            raise


def _state(told: Mapping[str, Any]) -> State:
    state = told["State"]
    began, ended = nanoseconds_of(state["StartedAt"]), nanoseconds_of(state["FinishedAt"])
    return State(
        id=told["Id"],
        status=state["Status"],
        labels=told["Config"]["Labels"] or {},
        exit_code=state["ExitCode"],
        out_of_memory=state["OOMKilled"],
        error=state["Error"],
        seconds=max(0, ended - began) / 1e9,
        finished=ended / 1e9,
    )


def nanoseconds_of(time: str) -> int:
    """Since the epoch. The engine writes up to nine digits behind the point."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(f"{fraction:0<9}")
