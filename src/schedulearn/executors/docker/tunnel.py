"""A way through SSH to the socket of an engine on another machine.

One `ssh` for each server carries all connections. Docker's own way (`docker system dial-stdio`) starts one for each
connection, needs the docker command on the other side, and its reads know no time-out.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.executors.docker.address import Address

_OPTIONS = (
    "BatchMode=yes",  # never ask for anything
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
    "ExitOnForwardFailure=yes",
    "StreamLocalBindUnlink=yes",
    "ControlMaster=no",  # a connection of our own, whatever the user's configuration shares
    "ControlPath=none",
)
_PATIENCE = 15.0  # seconds for ssh to log in


def ssh_command(address: Address, local: Path) -> list[str]:
    """What is run: it ends by itself when our end of its standard input is closed, even if we are killed."""
    words = shlex.split(os.environ.get("SCHEDULEARN_SSH") or "ssh")
    for option in _OPTIONS:
        words += ["-o", option]
    words += ["-T", "-L", f"{local}:{address.path}"]
    words += ["-l", address.user] if address.user else []
    words += ["-p", str(address.port)] if address.port else []
    return [*words, "--", address.host, "exec cat"]


class Tunnel:
    """A socket in a private folder that leads to the engine's. Opened anew when it is asked for and broken."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._folder = Path(tempfile.mkdtemp(prefix="schedulearn-ssh-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def socket(self) -> Path:
        """The path of our end; ExecutorError, in words, if there is no way through."""
        with self._lock:
            path = self._folder / "engine.sock"
            if self._closed:
                raise ExecutorError("the connection is closed")
            if self._process is None or self._process.poll() is not None or not path.exists():
                self._end()
                self._start(path)
            return path

    def said(self) -> str:
        """The last thing that ssh complained of."""
        try:
            lines = (self._folder / "errors").read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        self._closed = True  # at once, so that a login that is under way ends
        with self._lock:
            self._end()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, path: Path) -> None:
        with open(self._folder / "errors", "wb") as errors:
            try:
                self._process = subprocess.Popen(
                    ssh_command(self._address, path),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,  # Ctrl-C at the service's terminal is not for it
                )
            except OSError as error:
                raise ExecutorError(f"ssh cannot be run: {error.strerror}") from error
        deadline = time.monotonic() + _PATIENCE
        while not path.exists():
            if self._process.poll() is not None:
                raise ExecutorError(ssh_words(self._address, self.said()))
            if self._closed or time.monotonic() > deadline:
                self._end()
                raise ExecutorError(f"ssh did not get into {self._address.host} within {_PATIENCE:g} s")
            time.sleep(0.02)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin
        process.stdin.close()
        (self._folder / "engine.sock").unlink(missing_ok=True)


def ssh_words(address: Address, said: str) -> str:
    """What ssh complained of, and what to do about it."""
    port = f"-p {address.port} " if address.port else ""
    login = f"{address.user}@{address.host}" if address.user else address.host
    try_it = f"try it as the user of the service: ssh -o BatchMode=yes {port}{login} true"
    advice = {
        "permission denied": "its key is not let in: add the public key of the service's user to "
        "~/.ssh/authorized_keys there",
        "host key verification failed": "the server's host key is not known, or has changed: log in once by hand",
        "could not resolve hostname": "there is no such host",
        "connection refused": "no SSH server listens there",
        "timed out": "the server does not answer",
        "no route to host": "the server cannot be reached",
    }
    why = next((words for sign, words in advice.items() if sign in said.lower()), "ssh failed")
    return f"{why} ({said or 'it said nothing'}); {try_it}"
