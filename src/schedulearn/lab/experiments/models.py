"""Models that the published experiments train: how much work each is, and how its loss falls.

What is known of a curve is the part of the whole reduction of the loss that is left at some points of the work. Between
them what is left falls exponentially, as losses do. How long each takes was calibrated on published runs *without*
limits or moves alone; `docs/experiments.md` says how.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from schedulearn.core.domain.learning import LearningCurve

Knots = Sequence[tuple[float, float]]  # (part of the work done, part of the loss reduction left)

_REPORTS = 250  # values that a job reports in its life
_LAST_LOSS = 0.1  # of the first: what no training takes away
NOISE = 0.005  # standard deviation of a reported loss, as a part of it
STEP_NOISE = 0.1  # of the work from one report to the next, likewise
SPREAD = 0.02  # standard deviation of the work of one model from run to run, as a part of it

VAE: Knots = ((0.0, 1.0), (0.2, 0.35), (1.0, 0.0052))  # 65 % at 20 % of its time, and no kink after that
BI_RNN: Knots = ((0.0, 1.0), (0.2, 0.02), (1.0, 0.001))  # 98 % at 20 %
GRU: Knots = ((0.0, 1.0), (0.2, 0.1), (0.27, 0.01), (1.0, 0.001))  # 90 % at 20 %, 99 % at 27 %


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    seconds: float  # alone on the machine
    curve: Knots = GRU  # where nothing is said of a model, the middle one of the three that are known
    cpu: float = 1.0  # part of the machine that it keeps busy when alone


def learning_curve(model: Model, rng: Random) -> LearningCurve:
    """What one run of it reports: the model's curve with a little noise."""
    last = model.curve[-1][1]
    points = []
    for k in range(_REPORTS + 1):
        part = k / _REPORTS
        left = (_left(model.curve, part) - last) / (1 - last)
        loss = _LAST_LOSS + (1 - _LAST_LOSS) * left
        points.append((part, loss * (1 + NOISE * rng.gauss(0, 1))))
    return LearningCurve(points)


def _left(curve: Knots, part: float) -> float:
    for (x0, y0), (x1, y1) in pairwise(curve):
        if part <= x1:
            return y0 * math.exp(math.log(y1 / y0) * (part - x0) / (x1 - x0))
    return curve[-1][1]


# One machine of FlowCon's: an R320 with 8 cores.
FLOWCON = {
    model.name: model
    for model in (
        Model("VAE", 259.6, VAE),
        Model("VAE-T", 45.0, VAE),
        Model("MNIST-P", 106.1),
        Model("MNIST-T", 28.2),
        Model("LSTM-CFC", 730.0, cpu=0.2),
        Model("LSTM-CRF", 172.0),
        Model("Bi-RNN", 172.0, BI_RNN),
        Model("GRU", 134.0, GRU),
    )
}

# One worker of SpeCon's: an M510 with 16 cores, less what Kubernetes keeps.
SPECON = {
    model.name: model
    for model in (
        Model("VAE", 215.0, VAE),
        Model("VAE-T", 251.0, VAE),
        Model("GRU-P", 136.0, GRU),
        Model("GRU-T", 167.0, GRU),
        Model("Bi-RNN-P", 308.0, BI_RNN),
        Model("Bi-RNN-T", 377.0, BI_RNN),
        Model("RNN-P", 60.0),
        Model("RNN-T", 74.0),
        Model("Dynamic-RNN-P", 91.0),
        Model("Dynamic-RNN-T", 111.0),
    )
}

# Speed-ups with 1 to 4 workers at a fixed batch, as Pollux measured them, smallest job first (GPU-seconds alone).
POLLUX = {
    "ncf": (33.0, (1.0, 0.802, 0.778, 1.201)),
    "cifar10": (4017.0, (1.0, 1.705, 2.55, 3.457)),
    "bert": (13716.0, (1.0, 2.072, 2.883, 3.995)),
    "deepspeech2": (20527.0, (1.0, 1.93, 3.063, 4.12)),
    "yolov3": (37780.0, (1.0, 1.949, 2.306, 2.936)),
    "imagenet": (554429.0, (1.0, 1.968, 2.749, 3.672)),
}
