"""Commands beside a worker that is a container, and its files as they are now."""

import posixpath
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.archive import moved
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.common.exec import STDERR, STDOUT, NotRunning
from schedulearn.executors.docker.calls import NotThere, WrongState
from schedulearn.executors.docker.containers import CREATED, PAUSED, Containers, State, is_link
from schedulearn.executors.docker.frames import cut
from schedulearn.executors.docker.rules import WORK

_CHUNK = 1 << 16
_LOOK_EVERY = 5.0  # seconds of silence after which the engine is asked whether the command still runs
_END_WITHIN = 10.0  # seconds between the end of the output and that of the command
_BEGIN_WITHIN = 10.0  # seconds
_LOST = 125  # the exit code if it cannot be told how the command ended

# An engine starts commands in containers, but cannot end them. So the command is started by a shell, which
# - waits for a line on standard input: output that came before we listen would be lost;
# - leaves a watcher behind that kills the command's session when standard input is closed: by us, or by the engine when
#   our connection has gone or the command has ended. Its double fork keeps it from being the command's own child. The
#   command itself comes first, or it would see its children die and end in its own way; while the watcher is in the
#   session, no other process is given that number.
_SHELL = """
read -r go || exit 125
exec 3<&0
( (
  while read -r more; do :; done
  kill -9 $$
  read -r self rest </proc/self/stat
  for round in 1 2 3; do
    for folder in /proc/[0-9]*; do
      { read -r line <"$folder/stat"; } 2>/dev/null || continue
      pid=${folder#/proc/}
      set -- ${line##*) }
      [ "$4" = $$ ] && [ "$pid" != "$self" ] && kill -9 "$pid"
    done
  done
) <&3 >/dev/null 2>&1 3<&- & )
exec "$@" </dev/null 3<&-
"""


class DockerCommand:
    """Implements `common.exec.Command`."""

    def __init__(self, containers: Containers, command: str) -> None:
        self._containers, self._command = containers, command
        with containers.calls.api() as api:
            answer = api.exec_start(command, socket=True)
        self._answer = answer  # must live as long as its socket
        self._socket: socket.socket = getattr(answer, "_sock", answer)
        self._socket.settimeout(_LOOK_EVERY)
        try:
            self._wait_for_process()
            self._socket.sendall(b"go\n")
        except OSError:
            self._close()
            raise

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        waiting = b""
        try:
            while (chunk := self._receive()) or chunk is None:
                pieces, waiting = cut(waiting + (chunk or b""))
                yield from ((STDERR if kind == STDERR else STDOUT, data) for kind, data in pieces)
                if chunk is None and not self._runs():  # something that it left behind still holds its output
                    return
        finally:
            self.end()
            self._close()

    @property
    def exit_code(self) -> int:
        deadline = time.monotonic() + _END_WITHIN
        while self._runs() and time.monotonic() < deadline:
            time.sleep(0.02)
        code = self._inspect().get("ExitCode")
        return _LOST if code is None else int(code)

    def end(self) -> None:
        with suppress(OSError):  # it has ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        """The SDK keeps the answer with its socket, and that alive through it."""
        for part in (getattr(self._answer, "_response", None), self._answer):
            if part is not None:
                with suppress(OSError):
                    part.close()

    def _receive(self) -> bytes | None:
        """b"": the end; None: nothing new for a while."""
        try:
            return self._socket.recv(_CHUNK)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def _wait_for_process(self) -> None:
        """The engine says yes before it has made one."""
        deadline = time.monotonic() + _BEGIN_WITHIN
        while time.monotonic() < deadline:
            told = self._inspect()
            if not told or told.get("Pid") or told.get("ExitCode") is not None:
                return
            time.sleep(0.01)

    def _runs(self) -> bool:
        return bool(self._inspect().get("Running"))

    def _inspect(self) -> Any:
        """{}: the container has gone, and the command with it."""
        try:
            with self._containers.calls.api() as api:
                return api.exec_inspect(self._command)
        except NotThere:
            return {}


class DockerExec:
    """For one engine. Calls wait for it; none takes longer than its time-out before the first byte."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def run(self, worker: WorkerId, command: list[str]) -> DockerCommand:
        with self._containers.standing(self._containers.name(worker)):
            return self._run(worker, command)

    def _run(self, worker: WorkerId, command: list[str]) -> DockerCommand:
        state = self._find(worker)
        if state is None or not state.alive:
            raise NotRunning(f"worker {worker} is not running")
        if state.status == PAUSED:
            raise Conflict(f"job {worker.job} is paused, and the command would be, too: resume the job first")
        try:
            return DockerCommand(self._containers, self._create(state, command))
        except (NotThere, WrongState) as refusal:  # it has ended, or was paused, meanwhile
            raise NotRunning(f"worker {worker} is not running now: {refusal}") from refusal
        except OSError as error:
            raise Unreachable(f"the engine hung up: {error}") from error

    def files(self, worker: WorkerId, path: str) -> Iterator[bytes] | None:
        """Also of a container that has just ended, and whose files are not fetched yet."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\0" in path:
            raise InvalidSpec(
                "path", "leads out of the job's folder", "a path inside the run folder, e.g. out/model.pt"
            )
        state = self._find(worker)
        if state is None or state.status == CREATED:
            return None
        try:
            self._check_no_links(state.id, pure, path)
            chunks = self._containers.get(state.id, posixpath.join(WORK, *pure.parts))
            user = self._user(state.id)
        except NotThere as refusal:
            raise NotFound(f"there is no {path!r} among the files of this job") from refusal
        return moved(chunks, str(pure), user)

    def _check_no_links(self, container: str, pure: PurePosixPath, path: str) -> None:
        """The engine would follow one on the way, as root. (It may be made just after: see what `moved` leaves out.)"""
        for folder in reversed(pure.parents[:-1]):
            there = self._containers.look_at(container, posixpath.join(WORK, folder))
            if there and is_link(there):
                raise NotFound(f"there is no {path!r} among the files of this job (links are not followed)")

    def _find(self, worker: WorkerId) -> State | None:
        return self._containers.find(self._containers.name(worker))

    def _create(self, state: State, command: list[str]) -> str:
        words = ["sh", "-c", _SHELL, "sh", *command]
        user = "{}:{}".format(*self._user(state.id))
        with self._containers.calls.api() as api:
            made = api.exec_create(state.id, words, user=user, workdir=WORK, stdin=True, tty=False)
        return str(made["Id"])

    def _user(self, container: str) -> tuple[int, int]:
        with self._containers.calls.api() as api:
            uid, gid = api.inspect_container(container)["Config"]["User"].split(":")
        return int(uid), int(gid)
