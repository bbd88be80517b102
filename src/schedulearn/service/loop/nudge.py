"""How the API wakes the scheduler: a datagram on a socket in the data folder. Losing one costs a second, no more."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

_LOG = logging.getLogger(__name__)
_LONGEST_PATH = 100  # the kernel's limit for a socket's path is 108 bytes


class NudgeListener:
    """Calls `wake` at each datagram."""

    def __init__(self, path: Path, wake: Callable[[], None]) -> None:
        self._path, self._wake = path, wake
        self._socket: socket.socket | None = None

    def start(self) -> None:
        if len(str(self._path)) > _LONGEST_PATH:
            _LOG.warning("the path of the data folder is too long for a socket; the scheduler polls instead")
            return
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._path.chmod(0o600)
        threading.Thread(target=self._listen, args=(self._socket,), name="nudge", daemon=True).start()

    def close(self) -> None:
        if self._socket:
            nudge(self._path)  # so that the thread wakes up and sees the end
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)

    def _listen(self, listening: socket.socket) -> None:
        while self._socket is listening:
            try:
                listening.recv(16)
            except OSError:
                return
            self._wake()


def nudge(path: Path) -> None:
    """Wake the scheduler if there is one."""
    with contextlib.suppress(OSError):
        _knock(path)


def is_orphaned(path: Path) -> bool:
    """Whether the socket is there, but no process listens any more: the scheduler was killed."""
    try:
        _knock(path)
    except ConnectionRefusedError:
        return True
    except OSError:  # there is none, or it is full of others' knocks
        pass
    return False


def _knock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"!", str(path))
