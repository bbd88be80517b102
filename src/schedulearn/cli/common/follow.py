"""Following a job: its output as it comes, and under it one line that says how it stands."""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import JobOutput, colourful, next_steps, note, of_job, paint, say, width
from schedulearn.cli.view.jobs import status_line
from schedulearn.cli.view.text import shortened
from schedulearn.wire.clean import clean
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import Json, duration, metric, why

if TYPE_CHECKING:
    from schedulearn.client import Client


class StatusLine:
    """The last line of the terminal. It gives way to output, and comes back when that has ended its line."""

    def __init__(self, raw: bool = False) -> None:
        self._output = JobOutput(sys.stdout, raw)
        self._text = ""
        self._shown = False
        self._at_line_start = True
        self._lock = threading.Lock()
        self._live = sys.stdout.isatty() and sys.stderr.isatty() and colourful(sys.stderr)

    def write(self, data: bytes) -> None:
        """Output of the job."""
        with self._lock:
            self._erase()
            if written := self._output.write(data):
                self._at_line_start = written.endswith(b"\n")
            self._draw()

    def update(self, text: str) -> None:
        with self._lock:
            self._erase()
            self._text = text
            self._draw()

    def close(self) -> None:
        with self._lock:
            self._erase()
            self._live = False
            self._output.close()
            if not self._at_line_start:
                print(flush=True)

    def _draw(self) -> None:
        if self._live and self._text and self._at_line_start:
            sys.stderr.write(paint(shortened(self._text, width() - 1), "dim", sys.stderr))
            sys.stderr.flush()
            self._shown = True

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


class Watcher:
    """Asks about the job every second, in its own thread with its own connection, and shows what it hears."""

    def __init__(self, job: int, make_client: Callable[[], "Client"], line: StatusLine) -> None:
        self._job, self._make_client, self._line = job, make_client, line
        self._stop = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        from schedulearn.client import ClientError

        with self._make_client() as client:
            while not self._stop.is_set():
                try:
                    job = client.job(self._job)
                    place = client.explain(self._job) if job["state"] == "queued" else None
                    self._show(job, place)
                except ClientError as error:
                    self._line.update(f"no answer from the service ({clean(error)}); the job keeps running")
                self._stop.wait(1.0)

    def _show(self, job: Json, place: Json | None) -> None:
        self._line.update(status_line(job, place))
        if not sys.stdout.isatty() and job["state"] != self._said and job["state"] not in FINISHED:
            self._said = job["state"]
            reason = clean((place or {}).get("text") or why(job))
            note(f"[job {job['id']} {job['state']}{': ' + reason if reason else ''}]")


def follow(client: "Client", job: int, chunks: Callable[[], Iterable[bytes]], raw: bool = False) -> Json:
    """Show the job's output until it has ended. Returns the job as it ended."""
    from schedulearn.cli.common.service import connect

    line = StatusLine(raw)
    try:
        with Watcher(job, connect, line):
            for chunk in chunks():
                line.write(chunk)
            return client.wait(job)
    finally:
        line.close()


def say_end(job: Json) -> Code:
    """How it ended, and what may be done now; the exit code of it."""
    ok = job["state"] == "succeeded"
    say_outcome(job, f"last {metric(job, named=True)}" if metric(job) else "")
    steps = {"details": f"schedulearn describe {job['id']}", "fetch its files": f"schedulearn pull {job['id']}"}
    next_steps(steps if ok else {**steps, "its output": f"schedulearn logs {job['id']} --tail 50"})
    return Code.DONE if ok else Code.JOB_FAILED


def say_outcome(job: Json, *more: str) -> None:
    """`Job 17 (mnist) failed · exit code 7 · ran 3 min`"""
    ok = job["state"] == "succeeded"
    words = [f"{of_job(job)} {job['state']}", "" if ok else why(job), f"ran {duration(job['run_seconds'])}", *more]
    say(" · ".join(word for word in words if word), "green" if ok else "red")


def say_left(job: int) -> None:
    """After Ctrl-C: the job goes on."""
    say()
    say(f"Job {job} keeps running.", "bold")
    next_steps(
        {
            "follow again": f"schedulearn logs {job} -f",
            "details": f"schedulearn describe {job}",
            "cancel it": f"schedulearn cancel {job}",
        }
    )
