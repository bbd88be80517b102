"""The real service as a process of its own, on a data folder of the test's."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

import schedulearn
from schedulearn.client import Client
from support.quick import QuickProcess
from support.waiting import wait_until

SOURCE = Path(schedulearn.__file__).parents[1]
PATIENCE = 60.0  # seconds for what should take a few at the most, on the busiest of machines


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "schedulearn.cli", *words]


def run_cli(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Any:
    """One verb of the command line, to its end."""
    if "--detach" in words or "-d" in words:  # goes on as a process that it starts itself
        return subprocess.run(
            command_line(*words),
            env=environment(env),
            cwd=cwd,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = QuickProcess(words, environment(env), output, errors, cwd)
        code = process.wait(PATIENCE)
        return subprocess.CompletedProcess(words, code, _text(output), _text(errors))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own, without what would lead to another service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
    paths = [str(SOURCE), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **(more or {})}


class Service:
    """Start, kill and restart it; running jobs go on, as they do for everybody. The port stays the same."""

    def __init__(
        self,
        data: Path,
        *options: str,
        own_users: bool = False,
        through: Sequence[str] = (),
        anew: bool = False,
    ) -> None:
        """`own_users`: as root, with a user for each user's jobs, as is usual; else jobs may write where tests look.

        `through`: words before its command that make it somebody else's, see `support.ordinary`. `anew`: all of it is
        loaded by itself, for those who look at what it finds as a new process.
        """
        self.data, self.options, self.own_users, self.through, self.anew = data, options, own_users, through, anew
        self.log = data.with_name(f"{data.name}{'-'.join(('', *options)).replace('/', '_')}.log")
        self.port = 0
        self._process: subprocess.Popen[bytes] | QuickProcess | None = None

    def start(self) -> "Service":
        """Returns when it answers."""
        began = len(self.output())
        self.launch()
        wait_until(lambda: " is up" in self.output()[began:] or self._has_ended(), PATIENCE, "the service is up")
        if self._has_ended():
            raise AssertionError(f"the service did not start:\n{self.output()[began:]}")
        if "scheduler" not in self.options:
            self.port = urlsplit(self.url).port or 0
            wait_until(self._answers, PATIENCE, "the service answers")
        return self

    def launch(self) -> None:
        """Only begin to start it."""
        trusted = [] if self.own_users or self.through or os.geteuid() != 0 else ["--root-jobs"]
        words = ["up", "--data", str(self.data), "--port", str(self.port), *trusted, *self.options]
        with open(self.log, "ab") as log:
            if not self.through and not self.anew:
                self._process = QuickProcess(words, environment(), log, log)
                return
            words = [*self.through, *command_line(*words)]
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment(), start_new_session=True
            )

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As `systemctl stop` or Ctrl-C would; its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> "Service":
        self.stop()
        return self.start()

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and not self._has_ended()

    @property
    def url(self) -> str:
        return str(self._client_file()["url"])

    @property
    def token(self) -> str:
        return str(self._client_file()["token"])

    def client(self, token: str | None = None, timeout: float = 30.0) -> Client:
        """The administrator's, or that of whoever has this token."""
        return Client(self.url, token or self.token, timeout)

    def cli(self, *words: str, token: str | None = None, cwd: Path | None = None) -> Any:
        env = {"SCHEDULEARN_URL": self.url, "SCHEDULEARN_TOKEN": token or self.token}
        return run_cli(*words, env=env, cwd=cwd)

    def output(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def clean_up(self) -> None:
        """End it and whatever still runs of its jobs."""
        if self.running:
            self.kill()
        kill_jobs(self.data)

    def __enter__(self) -> "Service":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clean_up()

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _end(self, number: signal.Signals) -> int:
        assert self._process
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def _answers(self) -> bool:
        with self.client() as client, suppress(Exception):
            return client.health()["status"] == "ok"
        return False

    def _client_file(self) -> Any:
        return json.loads((self.data / "client.json").read_text())


def kill_jobs(data: Path) -> None:
    """Kill every process of the jobs in this data folder."""
    while pids := job_processes(data):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def job_processes(data: Path, worker: str = "") -> list[int]:
    """The processes of one worker ("17.2.0") or of all: their supervisors, and whatever these have started."""
    found = []
    jobs = f"{data}/jobs/"
    folder = f"{jobs}{worker.replace('.', '/attempts/', 1).replace('.', '/')}"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
            state = process_state(int(process.name))
        except OSError:
            continue
        mine = any(v.startswith(f"SCHEDULEARN_CONTROL={folder}".encode()) for v in variables)
        shim = len(words) > 4 and words[3].endswith(b"shim.py") and words[4].startswith(folder.encode())
        if (mine or shim) and state != "Z":
            found.append(int(process.name))
    return found


def process_state(pid: int) -> str:
    """`R`, `S`, `T` (suspended), …; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
