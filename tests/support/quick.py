"""The command line without the time to load it: one process has loaded all of it, and forks for each call.

What runs is the real thing: a process of its own, with the folder, environment and streams of whoever called it.
"""

import array
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TextIO

from support.service import environment
from support.waiting import wait_until

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
    ask = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
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
    path = folder / "quick.sock"
    commands = folder / "bin"
    commands.mkdir()
    stub = commands / "schedulearn"
    stub.write_text(_STUB.format(python=sys.executable, path=str(path)))
    stub.chmod(0o755)
    tests = str(Path(__file__).resolve().parents[1])
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], tests])
    # The last words are those by which a service is recognised.
    server = subprocess.Popen([sys.executable, "-m", "support.quick", str(path), "schedulearn", "up"], env=env)
    try:
        wait_until(lambda: path.exists() or server.poll() is not None, 60, "the command line is loaded")
        yield commands
    finally:
        server.kill()
        server.wait()


def serve(path: str) -> None:
    """Load everything, then fork for each call."""
    from schedulearn.cli.common import detach
    from schedulearn.cli.main import VERBS

    for verb in [verb for verbs in VERBS.values() for verb in verbs]:
        importlib.import_module(f"schedulearn.cli.{verb}")
    importlib.import_module("schedulearn.client")
    importlib.import_module("rich.console")
    importlib.import_module("schedulearn.api.server")
    detach.subprocess = SimpleNamespace(Popen=_Forked, DEVNULL=None)  # type: ignore[assignment]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path + ".new")
        listening.listen()
        Path(path + ".new").rename(path)
        while True:
            call, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(call)
            call.close()


def _answer(call: socket.socket) -> None:
    code = 70
    try:
        code = _run(*_asked(call))
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
        os._exit(code & 0xFF)


def _asked(call: socket.socket) -> tuple[list[str], str, dict[str, str]]:
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
    words, folder, env = json.loads(text)
    return words, folder, env


def _stream(number: int) -> TextIO:
    return open(number, "w" if number else "r", encoding="utf-8", closefd=False)


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


def _run(words: list[str], folder: str, env: dict[str, str]) -> int:
    from schedulearn.cli.main import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["schedulearn", *words]
    return main(words)


if __name__ == "__main__":
    serve(sys.argv[1])
