"""One comparison of policies: the simulator in a process of its own, with the lowest priority, and within limits."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STORY, PROGRESS, ERRORS = "study.json", "progress.json", "errors.txt"
_COMMAND = (sys.executable, "-m", "schedulearn.service.studies.leash")
_MOST_READ, _MOST_WORDS = 100_000, 2_000  # characters of what it complained about that are read, and told


@dataclass(frozen=True, slots=True)
class Limits:
    """What one comparison may take."""

    seconds: float = 900.0
    memory: int = 4 * 1000**3  # bytes of its address space
    file: int = 100 * 1000**2  # bytes of each file that it writes
    niceness: int = 19  # it only gets what others leave


class Comparison:
    """Runs from the start on; when it ends, `study.json` of its folder says how."""

    def __init__(
        self, folder: Path, words: Sequence[str], limits: Limits, clock: Callable[[], float], on_end: Callable[[], None]
    ) -> None:
        """`words`: a module, and what it is given; it leaves `report.json`, and may say in PROGRESS how far it is."""
        self._folder, self._limits, self._clock, self._on_end = folder, limits, clock, on_end
        self.owner: int | None = self._story()["owner"]
        self._verdict: tuple[str, str] | None = None  # state and problem, if it was ended from outside
        self._lock = threading.Lock()
        with open(folder / ERRORS, "wb") as errors:
            self._process = subprocess.Popen(
                [*_COMMAND, *words],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.PIPE,  # its leash: should this service be killed, it ends too
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        self._restrain()
        self._thread = threading.Thread(target=self._wait, name=f"comparison {folder.name}", daemon=True)
        self._thread.start()

    def progress(self) -> dict[str, Any]:
        """How far it is: `total` is 0 while it still reads."""
        try:
            told = json.loads((self._folder / PROGRESS).read_text("utf-8"))
            return {"policy": str(told["policy"]), "done": int(told["done"]), "total": int(told["total"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {"policy": "", "done": 0, "total": 0}

    def end(self, problem: str, state: str) -> None:
        """Stop it; returns when it has stopped."""
        self._stop(state, problem)
        self._thread.join()

    def _stop(self, state: str, problem: str) -> None:
        with self._lock:
            self._verdict = self._verdict or (state, problem)
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)  # it has nothing to save

    def _restrain(self) -> None:
        seconds = int(self._limits.seconds) + 1  # of CPU time
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, self._limits.niceness)
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (self._limits.memory, self._limits.memory))
            resource.prlimit(self._process.pid, resource.RLIMIT_CPU, (seconds, seconds))
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (self._limits.file, self._limits.file))

    def _wait(self) -> None:
        try:
            self._process.wait(self._limits.seconds)
        except subprocess.TimeoutExpired:
            self._stop("failed", f"it took longer than {self._limits.seconds:g} s: fewer jobs or policies take less")
            self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        try:
            with suppress(OSError):  # its folder may be gone, or the disk full
                self._write(*(self._verdict or self._outcome()))
        finally:
            self._on_end()

    def _outcome(self) -> tuple[str, str]:
        """If one policy failed, the others have their report all the same."""
        with open(self._folder / ERRORS, encoding="utf-8", errors="replace") as file:
            words = file.read(_MOST_READ).strip()
        if (self._folder / "report.json").is_file():
            errors = [line.removeprefix("error: ") for line in words.splitlines() if line.startswith("error: ")]
            return "done", "; ".join(errors)[:_MOST_WORDS]
        return "failed", self._failure(words)[:_MOST_WORDS]

    def _failure(self, words: str) -> str:
        if self._process.returncode < 0:
            return f"it was ended by the system ({signal.Signals(-self._process.returncode).name}). {words}"
        if words.startswith("Traceback"):  # where in the code is in the folder
            return f"the simulator failed: {words.splitlines()[-1]}"
        return words.removeprefix("error: ") or f"it ended with {self._process.returncode}"

    def _story(self) -> dict[str, Any]:
        story: dict[str, Any] = json.loads((self._folder / STORY).read_text("utf-8"))
        return story

    def _write(self, state: str, problem: str) -> None:
        story = {**self._story(), "state": state, "problem": problem, "ended_at": self._clock()}
        partial = self._folder / f"{STORY}.partial"
        partial.write_text(json.dumps(story), "utf-8")
        partial.replace(self._folder / STORY)


def _environment() -> dict[str, str]:
    """This process's own, without what leads to a service: it needs none."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
