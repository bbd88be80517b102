"""How well a job scales, from the step times that were measured of it.

A shape says how s(n) runs in principle (a fit, earlier jobs like it, or the assumed curve); what was measured then
pulls it onto the measured points. So a measured n has its measured value, and the shape only fills the gaps.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations

from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup

TRUSTED = 2  # growth is believed up to so many times the largest size measured
_LEAST_POINTS = 3  # the model has three parameters
_ALONE = (0, 1)  # the places of a and b/n among them: one is needed, or T(1) = 0

Curve = Callable[[int], float]


def fit_speedup(step_times: Mapping[int, Sequence[float]], most: int, prior: SpeedUp | None = None) -> SpeedUp:
    """s(1..most) from the seconds of a step at each number of workers, the work of a step being the same at each.

    `prior` is what earlier jobs of the same name, image or command showed. s never exceeds n, may fall where more
    workers make a step slower, and is flat beyond twice the largest size measured.
    """
    most = max(1, most)
    times = _medians(step_times)
    if not times:
        return SpeedUp.of(prior or assumed_speedup(most), most)
    base = min(times)
    measured = {n: min(float(n), base * times[base] / times[n]) for n in sorted(times)}
    curve = _pulled(_shape(times, most, prior), measured)
    return SpeedUp.of(lambda n: _careful(curve, n, base, TRUSTED * max(times)), most)


def _medians(step_times: Mapping[int, Sequence[float]]) -> dict[int, float]:
    usable = {n: [t for t in times if 0 < t < math.inf] for n, times in step_times.items() if n >= 1}
    return {n: statistics.median(times) for n, times in usable.items() if times}


def _shape(times: Mapping[int, float], most: int, prior: SpeedUp | None) -> Curve:
    if len(times) < _LEAST_POINTS and prior is not None:
        return prior
    if len(times) < 2:
        return assumed_speedup(most)
    model = fit_step_time(times)
    return lambda n: 1 / model(n)  # only ratios of a shape matter


def _pulled(shape: Curve, measured: Mapping[int, float]) -> Curve:
    """The shape times what measurement says of it: by straight lines between measured sizes, constant outside."""
    sizes = list(measured)
    ratios = [measured[n] / shape(n) for n in sizes]

    def curve(n: int) -> float:
        above = next((i for i, size in enumerate(sizes) if size >= n), None)
        if above is None:
            return shape(n) * ratios[-1]
        if above == 0 or sizes[above] == n:
            return shape(n) * ratios[above]
        part = (n - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
        return shape(n) * (ratios[above - 1] * (1 - part) + ratios[above] * part)

    return curve


def _careful(curve: Curve, n: int, base: int, limit: int) -> float:
    if n <= base:
        return float(n)  # s(smallest measured) = that n
    n = min(n, limit)
    return min(float(n), curve(n))


def fit_step_time(times: Mapping[int, float]) -> Curve:
    """T(n) = a + b/n + c·(n − 1) with a, b, c ≥ 0 and the least relative error.

    With two sizes c cannot be told apart and is 0. Non-negative least squares of three columns is solved exactly by
    trying each set of columns that may be positive.
    """
    columns: list[Curve] = [lambda _: 1.0, lambda n: 1 / n, lambda n: n - 1.0]
    usable = columns if len(times) >= _LEAST_POINTS else columns[:2]
    weights = least_relative_error([[column(n) / t for column in usable] for n, t in times.items()], _ALONE)
    return lambda n: sum(w * column(n) for w, column in zip(weights, usable, strict=True))


def least_relative_error(rows: Sequence[Sequence[float]], needed: Collection[int]) -> list[float]:
    """Weights ≥ 0 with rows · weights ≈ 1, of which at least one of those `needed` is above 0."""
    width = len(rows[0])
    best, best_error = [0.0] * width, math.inf
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            found = _least_squares([[row[i] for i in chosen] for row in rows])
            if found is None or min(found) <= 0 or not set(chosen) & set(needed):
                continue
            weights = [0.0] * width
            for i, weight in zip(chosen, found, strict=True):
                weights[i] = weight
            error = sum((1 - sum(w * x for w, x in zip(weights, row, strict=True))) ** 2 for row in rows)
            if error < best_error:
                best, best_error = weights, error
    return best


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Weights w with rows · w ≈ 1, by the normal equations; None where the columns are not independent."""
    width = len(rows[0])
    scale = [math.sqrt(sum(row[i] ** 2 for row in rows)) for i in range(width)]
    if min(scale) <= 0:
        return None
    unit = [[x / s for x, s in zip(row, scale, strict=True)] for row in rows]
    table = [[sum(r[i] * r[j] for r in unit) for j in range(width)] + [sum(r[i] for r in unit)] for i in range(width)]
    for i in range(width):
        if table[i][i] < 1e-12:  # positive semi-definite: the diagonal is the pivot
            return None
        for j in range(width):
            if j != i:
                factor = table[j][i] / table[i][i]
                table[j] = [a - factor * b for a, b in zip(table[j], table[i], strict=True)]
    return [table[i][width] / table[i][i] / scale[i] for i in range(width)]
