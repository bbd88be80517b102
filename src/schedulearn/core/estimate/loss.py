"""When will a loss curve flatten?

A curve is fitted as c + a·f(e/τ), e being the steps since the first point, f an exponential or an inverse power that
falls from 1 to 0. It counts as flat from the step on where training twice as long would gain less than `tolerance`
of what was gained till then. In that rule a and c cancel: neither scaling nor shifting a loss changes the answer.
"""

import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from schedulearn.core.estimate.remaining import Estimate

_LEAST_POINTS = 8
_MOST_BINS = 64  # enough for four parameters, and cheap
_LEAST_EXPLAINED = 0.5  # share of the variance that a fit must explain to be believed
_FARTHEST = 10.0  # times the steps seen: what lies beyond is not predicted
_FLOOR = 1e-3  # of the curve's height: a fit is never held to be better than this
_DOUBT = 4.0  # fits within so many times the error's own scatter are as good as the best (a 95 % interval)
_MOST_KNOWN = 20_000  # answers that are remembered
_SIDE = 3  # bins on both sides of a jump that must agree on it
_JUMP = 0.2  # of the curve's height: what rises less is part of the curve
_BEYOND_NOISE = 8.0  # times the usual change from bin to bin
_SCALES = [10 ** (k / 8) for k in range(-20, 9)]  # τ tried, in units of the steps seen

Fall = Callable[[float], float]
Points = Sequence[tuple[float, float]]


def _power(exponent: float) -> Fall:
    return lambda z: (1 + z) ** -exponent


_SHAPES: tuple[Fall, ...] = (_power(0.5), _power(1.0), _power(2.0), lambda z: math.exp(-z))


@dataclass(frozen=True, slots=True)
class _Fit:
    shape: Fall
    scale: float  # τ, in units of the steps seen
    error: float  # sum of squares
    gain: float  # a


def predict_flat(points: Points, goal: str = "min", tolerance: float = 0.02) -> Estimate | None:
    """The step at which the metric flattens, from (step, value) points; it may lie in the past.

    None where there is too little to go by: few points, no trend towards the goal, mere noise, or a bend too
    far ahead to tell.
    """
    clean = _since_jump(_clean(points, -1.0 if goal == "max" else 1.0))
    if len(clean) < _LEAST_POINTS:
        return None
    first, seen = clean[0][0], clean[-1][0] - clean[0][0]
    curve = _normalised([((step - first) / seen, value) for step, value in _binned(clean)])
    if curve is None:
        return None
    fits = _fits(curve)
    best = min(fits, key=lambda fit: fit.error)
    if best.gain <= 0 or best.error > (1 - _LEAST_EXPLAINED) * _variance(curve):
        return None
    reach = {shape: _flat_at(shape, tolerance) for shape in _SHAPES}
    expected = best.scale * reach[best.shape]
    if expected > _FARTHEST:
        return None
    bound = best.error * (1 + _DOUBT / (len(curve) - 4)) + _FLOOR**2 * len(curve)
    ends = [min(fit.scale * reach[fit.shape], _FARTHEST) for fit in fits if fit.error <= bound and fit.gain > 0]
    low, high = min(ends), max(ends)
    return Estimate(first + seen * low, first + seen * expected, first + seen * high, "loss curve")


class Flattening:
    """The same for curves that grow while policies ask at every decision.

    A fit takes milliseconds: a curve is fitted anew only when it has grown by a quarter since the last time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, int], Estimate | None] = {}

    def of(self, curve: Hashable, count: int, points: Callable[[int], Points], goal: str) -> Estimate | None:
        """`curve` names it, `count` is how many points it has; `points` gives at least the first so many of them."""
        if count < _LEAST_POINTS:
            return None
        key = (curve, _milestone(count))
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = predict_flat(points(key[1]), goal)
        return self._known[key]


def _milestone(count: int) -> int:
    """8, 10, 12, 15, 18, 22 …: the last of them that is not above `count`."""
    reached = _LEAST_POINTS
    while (further := reached + reached // 4) <= count:
        reached = further
    return reached


def _clean(points: Points, sign: float) -> list[tuple[float, float]]:
    """In order of steps, falling when it gets better; of a step done twice (after a restart) the later value."""
    by_step = {step: sign * value for step, value in points if math.isfinite(step) and math.isfinite(value)}
    return sorted(by_step.items())


def _since_jump(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without what came before the metric last got much worse for good: that was another curve."""
    if len(points) < _LEAST_POINTS:
        return points
    bins = _binned(points)
    values = [value for _, value in bins]
    changes = [abs(b - a) for a, b in pairwise(values)]
    least = max(_JUMP * (max(values) - min(values)), _BEYOND_NOISE * statistics.median(changes))
    rises = [
        statistics.median(values[i : i + _SIDE]) - statistics.median(values[i - _SIDE : i])
        for i in range(_SIDE, len(values) - _SIDE + 1)
    ]
    jumps = [i for i, rise in enumerate(rises, _SIDE) if rise > least]
    if not jumps:
        return points
    start = bins[jumps[-1]][0]
    return [point for point in points if point[0] >= start]


def _binned(points: Points) -> list[tuple[float, float]]:
    """At most `_MOST_BINS` points, each the median of its neighbours: outliers vanish, and a fit stays cheap."""
    size = math.ceil(len(points) / _MOST_BINS)
    bins = [points[i : i + size] for i in range(0, len(points), size)]
    return [(statistics.fmean(s for s, _ in part), statistics.median(v for _, v in part)) for part in bins]


def _normalised(curve: list[tuple[float, float]]) -> list[tuple[float, float]] | None:
    """Values from 0 to 1; None for one that does not move."""
    low, high = min(v for _, v in curve), max(v for _, v in curve)
    height = high - low
    if not 1e-9 * max(abs(low), abs(high)) < height < math.inf:
        return None
    return [(x, (value - low) / height) for x, value in curve]


def _variance(curve: Points) -> float:
    mean = statistics.fmean(y for _, y in curve)
    return sum((y - mean) ** 2 for _, y in curve)


def _fits(curve: Points) -> list[_Fit]:
    """For each shape one for each τ of the grid, then finer ones around its best: shapes differ by less than a grid."""
    fits: list[_Fit] = []
    for shape in _SHAPES:
        own = [_fit(curve, shape, scale) for scale in _SCALES]
        for step in (0.02, 0.003, 0.0005):
            best = min(own, key=lambda fit: fit.error)
            own += [_fit(curve, shape, best.scale * 10 ** (k * step)) for k in (-3, -2, -1, 1, 2, 3)]
        fits += own
    return fits


def _fit(curve: Points, shape: Fall, scale: float) -> _Fit:
    """The best c and a for a given f and τ: a straight line through (f, y)."""
    fs = [shape(x / scale) for x, _ in curve]
    count = len(curve)
    mean_f, mean_y = sum(fs) / count, sum(y for _, y in curve) / count
    ff = fy = yy = 0.0
    for f, (_, y) in zip(fs, curve, strict=True):
        df, dy = f - mean_f, y - mean_y
        ff += df * df
        fy += df * dy
        yy += dy * dy
    gain = fy / ff if ff > 0 else 0.0
    return _Fit(shape, scale, max(0.0, yy - gain * fy), gain)


def _flat_at(shape: Fall, tolerance: float) -> float:
    """The z from which on f(z) − f(2z) ≤ tolerance · (f(0) − f(z)), by bisection of its exponent."""
    low, high = -9.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        z = 10.0**middle
        if shape(z) - shape(2 * z) > tolerance * (1 - shape(z)):
            low = middle
        else:
            high = middle
    return float(10.0**high)
