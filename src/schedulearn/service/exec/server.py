"""Runs commands beside running jobs, for the API: the scheduler's end of a socket in the data folder.

The executors live in the scheduler's process, and it alone may reach the engines and sees the processes of jobs: the
API may be another process, or run in a container of its own without the engine's socket. So the API asks here, and all
that it needs is the data folder. Only the service's own user may open the socket.
"""

import json
import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import Conflict, SchedulearnError
from schedulearn.core.domain.ids import NodeName, WorkerId
from schedulearn.executors.common.exec import STDOUT, Command, Exec, NotRunning
from schedulearn.service.exec.protocol import ALIVE, BEAT, BEGUN, EXIT, SILENCE, frame, of_error, receive, short_path

_LOG = logging.getLogger(__name__)
MOST = 32  # at the same time; each has two threads


class ExecServer:
    """One thread listens; each client has one of its own, and one that carries the output."""

    def __init__(self, path: Path, beside: Callable[[NodeName], Exec | None]) -> None:
        self._path, self._beside = path, beside
        self._listening: socket.socket | None = None
        self._sessions: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_path(self._path) as name:
            listening.bind(name)
        self._path.chmod(0o600)
        listening.listen()  # no client gets in before this
        self._listening = listening
        threading.Thread(target=self._listen, args=(listening,), name="exec", daemon=True).start()

    def close(self) -> None:
        """Commands that still run are ended."""
        if self._listening:
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._listening.close()
            self._path.unlink(missing_ok=True)
        with self._lock:
            sessions = dict(self._sessions)
        for connection in sessions:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in sessions.values():
            thread.join(BEAT)

    def _listen(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._session, args=(connection,), name="beside", daemon=True)
            with self._lock:
                self._sessions[connection] = thread
            thread.start()

    def _session(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE)
        try:
            with connection:
                self._serve(connection)
        except OSError:
            pass  # the client has gone
        except Exception:
            _LOG.exception("something beside a job failed")
        finally:
            with self._lock:
                self._sessions.pop(connection)

    def _serve(self, connection: socket.socket) -> None:
        asked = json.loads(receive(connection)[1])
        try:
            command = self._begin(asked)
        except SchedulearnError as error:
            connection.sendall(of_error(error))
            return
        try:
            connection.sendall(frame(BEGUN))
            _Carrier(command, connection).carry()
        finally:
            command.end()

    def _begin(self, asked: dict[str, Any]) -> Command:
        worker, node = WorkerId.parse(asked["worker"]), NodeName(asked["node"])
        beside = self._beside(node)
        if beside is None:
            raise NotRunning(f"there is no node {node} any more")
        if len(self._sessions) > MOST:
            raise Conflict(f"{MOST} commands run beside jobs already: wait until one has ended")
        if "command" in asked:
            _LOG.info("%s runs a command beside %s: %.200r", asked["by"], worker, asked["command"])
            return beside.run(worker, asked["command"])
        chunks = beside.files(worker, asked["path"])
        if chunks is None:
            raise NotRunning(f"worker {worker} is not running")
        return _Files(chunks)


class _Files:
    """A tar stream in the form of a command that writes it."""

    exit_code = 0

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return ((STDOUT, chunk) for chunk in self._chunks)

    def end(self) -> None:
        """No more of it is taken: that is enough."""


class _Carrier:
    """Sends what a command writes to the client, and a sign of life while it writes nothing."""

    def __init__(self, command: Command, connection: socket.socket) -> None:
        self._command, self._connection = command, connection
        self._sending = threading.Lock()

    def carry(self) -> None:
        """Until the command has ended, or the client has gone: then the command is ended."""
        pump = threading.Thread(target=self._pump, name="beside-output", daemon=True)
        pump.start()
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while pump.is_alive():
            if poll.poll(BEAT * 1000):  # it has nothing to say any more, so this is its end, or ours
                break
            self._beat()
        self._command.end()
        pump.join()

    def _beat(self) -> None:
        if self._sending.acquire(blocking=False):  # else the client is slow, and there is enough to read
            try:
                with suppress(OSError):
                    self._connection.sendall(frame(ALIVE))
            finally:
                self._sending.release()

    def _pump(self) -> None:
        try:
            for stream, data in self._command:
                self._send(frame(stream, data))
            last = frame(EXIT, b"%d" % self._command.exit_code)
        except SchedulearnError as error:
            last = of_error(error)
        except OSError:
            last = b""
        except Exception as error:
            _LOG.exception("a command beside a job was lost")
            last = of_error(SchedulearnError(f"the command was lost: {error}"))
        with suppress(OSError):
            self._send(last)
            self._connection.shutdown(
                socket.SHUT_RDWR
            )  # all is said; this also wakes the thread that waits for the client

    def _send(self, data: bytes) -> None:
        """However long the client takes, as long as it is there: a pipe would not hurry its reader either."""
        with self._sending:
            place = 0
            while place < len(data):
                with suppress(TimeoutError):
                    place += self._connection.send(data[place:])
