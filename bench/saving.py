"""What it costs to save, stop, start again and go on, at several points of a training."""

import statistics
import sys
from pathlib import Path

from bench.figures import Figures, median
from bench.service import folder
from schedulearn.lab.live.saving import Training

_EXAMPLES = Path(__file__).parent.parent / "examples"
_MODELS = {"vae.py": 29, "gru.py": 32, "birnn.py": 29}  # with their steps in an epoch
_PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
_EPOCHS = 100
_AIM, _AIM_SPREAD = 5.0, 1.43  # seconds, as published


def measure() -> Figures:
    figures = Figures("from the order to stop until the first step after the restart")
    every, first = [], []
    for name, steps in _MODELS.items():
        with folder() as root:
            command = [sys.executable, str(_EXAMPLES / name), "--epochs", str(_EPOCHS), "--pace", "0.001"]
            training = Training(command, root)
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
