"""What it costs to save, stop, start again and go on, at several points of a training."""

import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Figures, median
from bench.service import SOURCE, folder

_EXAMPLES = Path(__file__).parent.parent / "examples"
_MODELS = {"vae.py": 29, "gru.py": 32, "birnn.py": 29}  # with their steps in an epoch
_PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
_EPOCHS = 100
_AIM, _AIM_SPREAD = 5.0, 1.43  # seconds, as published
_STEP = re.compile(r"step (\d+)")


def measure() -> Figures:
    figures = Figures("from the order to stop until the first step after the restart")
    every, first = [], []
    for name, steps in _MODELS.items():
        with folder() as root:
            training = _Training(name, root)
            first.append(training.start())
            for part in _PARTS:
                training.reach(part * steps * _EPOCHS)
                saved, resumed = training.stop(), training.start()
                figures.add(f"{name} at {part:.0%}", saved + resumed, "s", aim=_AIM, against=f"{saved:.2f} s to save")
                every.append(saved + resumed)
            training.stop()
    fresh = median(first)
    figures.add(
        "all, mean", statistics.mean(every), "s", aim=_AIM, against=f"{fresh:.2f} s is any start of the program"
    )
    figures.add("all, standard deviation", statistics.stdev(every), "s", aim=_AIM_SPREAD)
    return figures


class _Training:
    """One of the examples, as a job would run it."""

    def __init__(self, name: str, root: Path) -> None:
        self._command = [sys.executable, str(_EXAMPLES / name), "--epochs", str(_EPOCHS), "--pace", "0.001"]
        self._root, self._attempt, self._step = root, 0, -1
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
        raise RuntimeError(f"{self._command[1]} ended before step {step}")

    def stop(self) -> float:
        """Seconds until it has saved and ended."""
        begin = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()
        return time.perf_counter() - begin

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
        return {
            **kept,
            "PYTHONPATH": str(SOURCE),
            "OMP_NUM_THREADS": "1",
            "SCHEDULEARN_WORKER": f"1.{self._attempt}.0",
            "SCHEDULEARN_CHECKPOINT_DIR": str(self._root),
        }
