"""What the duration of a job may depend on: numbers in its command line, and what it asks for.

Durations of earlier jobs are adjusted to the job at hand by power laws (twice the epochs, twice the seconds). A feature
is used only where it explains so much that chance would hardly do it: a seed does not count, a number of epochs does.
"""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_MOST_FEATURES = 16  # of one command line
_MOST_USED = 3  # power laws on top of each other
_LEAST_JOBS = 5
_EVIDENCE = 6.0  # log-likelihood (times 2) that a feature must bring, the more the more were tried
_STRETCH = math.log(4.0)  # how far beyond the values seen a power law is followed
_LEAST_SPREAD = math.log(1.1)  # between the smallest and the largest value seen; less tells of no law
_STEEPEST = 4.0  # power that is believed: what grows faster is chance
_MOST_PULL = 60.0  # logarithm: keeps any number of a command line within what a float can hold

_NUMBER = re.compile(r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?")

Features = Mapping[str, float]


def numbers_in(command: str | Sequence[str]) -> dict[str, float]:
    """The numbers of a command line, named by the option before them, or by their place where there is none.

    `train.py 7 --epochs 20 --lr=1e-3` gives `{"#1": 7, "--epochs": 20, "--lr": 0.001}`.
    """
    words = command.split() if isinstance(command, str) else list(command)
    found: dict[str, float] = {}
    option, places = "", 0
    for word in words:
        name, equals, text = word.rpartition("=")
        if _NUMBER.fullmatch(text):
            places += not (equals or option)
            found[name if equals else option or f"#{places}"] = float(text)
            option = ""
        else:
            option = word if word.startswith("-") and not equals else ""
        if len(found) == _MOST_FEATURES:
            break
    return {name: number for name, number in found.items() if math.isfinite(number)}


@dataclass(frozen=True, slots=True)
class Law:
    """seconds ∝ feature^slope, believed between the two logarithms."""

    feature: str
    slope: float
    low: float
    high: float

    def pull(self, features: Features) -> float:
        """What the feature multiplies the seconds by, against a job in the middle of those seen."""
        value = min(max(math.log(features[self.feature]), self.low), self.high)
        power = self.slope * (value - (self.low + self.high) / 2)
        return math.exp(min(max(power, -_MOST_PULL), _MOST_PULL))


def learn_laws(jobs: Sequence[tuple[Features, float]], names: Iterable[str]) -> list[Law]:
    """Which of the named features matter, best first; none if none does. From earlier jobs, all with seconds > 0."""
    if len(jobs) < _LEAST_JOBS:
        return []
    columns = _columns([features for features, _ in jobs], names)
    rest = _centred([math.log(seconds) for _, seconds in jobs])
    laws: list[Law] = []
    while columns and len(laws) < min(_MOST_USED, len(jobs) - _LEAST_JOBS + 1):
        name = max(columns, key=lambda n: _explained(columns[n], rest))
        before, gain = sum(y * y for y in rest), _explained(columns[name], rest)
        if not _convinces(before, gain, len(jobs), len(columns)):
            break
        xs = columns.pop(name)
        slope = _slope(xs, rest)
        rest = [y - slope * x for x, y in zip(xs, rest, strict=True)]
        logs = [math.log(features[name]) for features, _ in jobs]
        laws.append(Law(name, slope, min(logs) - _STRETCH, max(logs) + _STRETCH))
    return laws


def _columns(seen: Sequence[Features], names: Iterable[str]) -> dict[str, list[float]]:
    """Logarithms of the features that all have and that vary, centred."""
    usable = [name for name in sorted(names) if all(features.get(name, 0.0) > 0 for features in seen)]
    columns = {name: _centred([math.log(features[name]) for features in seen]) for name in usable}
    return {name: xs for name, xs in columns.items() if max(xs) - min(xs) > _LEAST_SPREAD}


def _centred(values: Sequence[float]) -> list[float]:
    mean = statistics.fmean(values)
    return [value - mean for value in values]


def _slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    slope = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs)
    return min(max(slope, -_STEEPEST), _STEEPEST)


def _explained(xs: Sequence[float], ys: Sequence[float]) -> float:
    """By how much the sum of squares of `ys` falls when a line through `xs` is taken off."""
    return float(sum(x * y for x, y in zip(xs, ys, strict=True)) ** 2 / sum(x * x for x in xs))


def _convinces(before: float, gain: float, jobs: int, tried: int) -> bool:
    if before <= 1e-12 * jobs:
        return False  # all alike: nothing is left to explain
    left = max(1 - gain / before, 1e-12)
    return -jobs * math.log(left) > _EVIDENCE + 2 * math.log(tried)
