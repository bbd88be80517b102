"""The command line and the service without the time to load them: one process has loaded all, and forks for each call.

What runs is the real thing: a process of its own, with the folder, environment and streams of whoever called it.
"""

import array
import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TextIO

_STUB = """#!{python} -IS
import array, json, os, signal, socket, sys
# Until it is known to whom they go: else a call that is told to stop too early would leave its process behind.
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
words = sys.argv[1:]
if words[:1] == ["up"] and "--port" not in words:
    words += ["--port", "0"]
if words[:1] == ["up"] and os.geteuid() == 0:
    words += ["--root-jobs"]  # jobs of examples look at files of the test
with socket.socket(socket.AF_UNIX) as call:
    call.connect({path!r})
    ask = dict(words=words, folder=os.getcwd(), env=dict(os.environ), is_typed=True)
    ask = json.dumps(ask).encode()
    streams = array.array("i", [0, 1, 2])
    call.sendmsg([len(ask).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    call.sendall(ask)
    pid = int.from_bytes(call.recv(4), "big")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    answer = call.recv(4)
sys.exit(int.from_bytes(answer, "big") if answer else 137)
"""


@contextmanager
def quick_command(folder: Path) -> Iterator[Path]:
    """A folder with the command `schedulearn`, to be put on the path."""
    commands = folder / "bin"
    commands.mkdir()
    stub = commands / "schedulearn"
    stub.write_text(_STUB.format(python=sys.executable, path=_loaded()))
    stub.chmod(0o755)
    yield commands


class QuickProcess:
    """The command line with these words, as far as tests need of `subprocess.Popen`."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        output: IO[bytes],
        errors: IO[bytes],
        folder: Path | None = None,
        entry: IO[bytes] | None = None,
    ) -> None:
        """`entry`: what it reads; else there is nothing to read."""
        self.returncode: int | None = None
        asked = {"words": words, "folder": str(folder or Path.cwd()), "env": dict(env)}
        self._call = socket.socket(socket.AF_UNIX)
        self._call.connect(_loaded())
        text = json.dumps(asked).encode()
        with open(os.devnull, "rb") as nothing:
            streams = array.array("i", [(entry or nothing).fileno(), output.fileno(), errors.fileno()])
            self._call.sendmsg([len(text).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        self.pid = int.from_bytes(self._call.recv(4), "big")
        self._handle = os.pidfd_open(self.pid)  # it waits for what it is asked
        self._call.sendall(text)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("schedulearn", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._handle], [], [], timeout)[0]:
            answer = self._call.recv(4)
            self.returncode = int.from_bytes(answer, "big") if answer else -signal.SIGKILL
        return self.returncode

    def __del__(self) -> None:
        self._call.close()
        os.close(self._handle)


@cache
def _loaded() -> str:
    """Where the process listens that has everything loaded; it ends with this one."""
    from support.service import environment
    from support.waiting import wait_until

    folder = tempfile.TemporaryDirectory(prefix="sl-quick-", dir="/tmp")  # a socket's path must be short
    path = Path(folder.name, "socket")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(Path(__file__).resolve().parents[1])])
    # The last words are those by which a service is recognised.
    words = [sys.executable, "-m", "support.quick", str(path), "schedulearn", "up"]
    server = subprocess.Popen(words, env=env, stdin=subprocess.PIPE)

    def end() -> None:
        server.kill()
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    wait_until(lambda: path.exists() or server.poll() is not None, 60, "the command line is loaded")
    return str(path)


def serve(path: str) -> None:
    """Load everything, then fork for each call, until the process that started this one has ended."""
    from schedulearn.cli.main import VERBS

    for verb in [verb for verbs in VERBS.values() for verb in verbs]:
        importlib.import_module(f"schedulearn.cli.{verb}")
    importlib.import_module("schedulearn.client")
    importlib.import_module("rich.console")
    importlib.import_module("schedulearn.api.server")
    gc.freeze()  # else each call would copy all of it when it looks for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path + ".new")
        listening.listen()
        Path(path + ".new").rename(path)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            call, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                sys.exit(_answer(call))
            call.close()


def _answer(call: socket.socket) -> int:
    code = 70
    try:
        code = _run(**_asked(call))
    except KeyboardInterrupt:
        code = 130  # as the command line would, had it come so far
    except BaseException:
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over: a second Ctrl-C comes too late
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(OSError):  # whoever called was killed
            call.sendall((code & 0xFF).to_bytes(4, "big"))
    return code & 0xFF


def _asked(call: socket.socket) -> Any:
    streams = array.array("i", [-1, -1, -1])
    size, extra, _, _ = call.recvmsg(4, socket.CMSG_SPACE(streams.itemsize * 3))
    streams = array.array("i", extra[0][2])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3))
    call.sendall(os.getpid().to_bytes(4, "big"))
    text, length = b"", int.from_bytes(size, "big")
    while len(text) < length:
        text += call.recv(length - len(text))
    return json.loads(text)


def _stream(number: int) -> TextIO:
    buffering = 1 if number == 2 else -1
    return open(number, "w" if number else "r", buffering, encoding="utf-8", closefd=False)


class _Forked:
    """What `up --detach` starts, from here instead of from nothing."""

    def __init__(self, words: list[str], stdout: IO[bytes], **_: object) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            for number in (1, 2):
                os.dup2(stdout.fileno(), number)
            os._exit(_run(words[3:], str(Path.cwd()), dict(os.environ)))

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


def _run(words: list[str], folder: str, env: dict[str, str], is_typed: bool = False) -> int:
    """`is_typed`: in a shell, by the command on the path; else it has a session of its own, and detaches as usual."""
    from schedulearn.cli.common import detach
    from schedulearn.cli.main import main

    if is_typed:
        detach.subprocess = SimpleNamespace(Popen=_Forked, DEVNULL=None)  # type: ignore[assignment]
    elif os.getsid(0) != os.getpid():
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["schedulearn", *words]
    return main(words)


if __name__ == "__main__":
    serve(sys.argv[1])
