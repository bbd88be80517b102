"""What it costs to save, stop, start again and go on, at several points of a training."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from schedulearn.lab.experiments.others import PARTS
from schedulearn.lab.live.programs import NETWORKS, PROGRAM
from schedulearn.lab.live.service import LiveError, Place

_STEPS = 4000  # at the scale of 1
_FEWEST = 400  # so that it does not end while it is told to stop
_STEP = re.compile(r"step (\d+)")


class Training:
    """A program as a job would run it, with its own checkpoint folder. It prints its steps."""

    def __init__(self, command: Sequence[str], root: Path) -> None:
        self._command, self._root, self._attempt, self._step = command, root, 0, -1
        self._process: subprocess.Popen[str]

    def start(self) -> float:
        """Seconds until the first step that it tells of."""
        self._attempt += 1
        begin = time.perf_counter()
        self._process = subprocess.Popen(self._command, env=self._environment(), stdout=subprocess.PIPE, text=True)
        self.reach(self._step + 1)
        return time.perf_counter() - begin

    def reach(self, step: float) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if found := _STEP.search(line):
                self._step = int(found[1])
                if self._step >= step:
                    return
        raise LiveError(f"{self._command[1]} ended before step {step:g}")

    def stop(self) -> float:
        """Seconds until it has saved and ended."""
        begin = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()
        return time.perf_counter() - begin

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _environment(self) -> dict[str, str]:
        """As of a worker, but without a service to report to."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "OMP_NUM_THREADS": "1",
            "SCHEDULEARN_WORKER": f"1.{self._attempt}.0",
            "SCHEDULEARN_CHECKPOINT_DIR": str(self._root),
        }


def overhead(label: str, place: Place, scale: float) -> Mapping[str, float]:
    """Seconds from the order to stop until the first step after the restart, at parts of the training of a model."""
    if place.executor != "process":
        raise LiveError("what saving costs is measured of plain processes: --executor process")
    steps = max(_FEWEST, round(_STEPS * scale))
    command = [sys.executable, str(PROGRAM), "--network", NETWORKS[label], "--steps", str(steps)]
    with tempfile.TemporaryDirectory(prefix="schedulearn-live-") as folder:
        training = Training(command, Path(folder))
        try:
            training.start()
            found = {}
            for part in PARTS:
                training.reach(part / 100 * steps)
                found[str(part)] = training.stop() + training.start()
            return found
        finally:
            training.end()
