"""Plots as SVG, drawn here so that a report is one small file that needs no network and no library.

Colours are CSS classes (`s0` … `s7`, with a dash `d1` for the second round), so that light and dark follow the page.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from schedulearn.core.domain.units import format_duration

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 34
COLOURS = 8

Point = tuple[float, float]

_NICE_TIMES = (1, 10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000, 86_400_000)
_TIME_STEPS = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[Point]
    colour: int  # its number among all of the report's policies


@dataclass(frozen=True, slots=True)
class Axis:
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def place(self, value: float) -> float:
        """0 at its low end, 1 at its high end."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return (value - low) / (high - low) if high > low else 0.0


def style(colour: int) -> str:
    """The classes of a series: a colour, and from the ninth on a dash."""
    dash = min(colour // COLOURS, 2)
    return f"s{colour % COLOURS}" + (f" d{dash}" if dash else "")


# --- axes


def log_time_axis(low: float, high: float) -> Axis:
    """Seconds by factors, with ticks at times that people know."""
    low, high = max(1.0, low), max(10.0, high)
    begin = max(tick for tick in _NICE_TIMES if tick <= low)
    high = max(high, begin * 10.0)
    return Axis(begin, high, [(t, format_duration(t)) for t in _NICE_TIMES if begin <= t <= high * 1.0001], log=True)


def time_axis(high: float) -> Axis:
    """Seconds since the first arrival, in at most ten even steps."""
    high = max(high, 1.0)
    step = next((float(s) for s in _TIME_STEPS if high / s <= 10), 0.0) or 86_400.0 * nice_step(high / 86_400 / 9)
    return Axis(0.0, high, [(k * step, format_duration(k * step)) for k in range(int(high / step) + 1)])


def value_axis(high: float) -> Axis:
    step = max(1.0, nice_step(max(high, 1.0) / 5))
    top = step * math.ceil(max(high, 1.0) / step)
    return Axis(0.0, top, [(k * step, f"{k * step:,.0f}") for k in range(round(top / step) + 1)])


def fine_axis(high: float) -> Axis:
    """For values that may well be below 1."""
    step = nice_step(high / 5) if high > 0 else 1.0
    count = max(1, math.ceil(high / step - 1e-9))
    return Axis(0.0, step * count, [(k * step, f"{k * step:g}") for k in range(count + 1)])


def share_axis() -> Axis:
    return Axis(0.0, 1.0, [(k / 4, f"{25 * k} %") for k in range(5)])


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … that is at least so large."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


# --- curves


def cdf(values: Sequence[float], points: int = 240) -> list[Point]:
    """(value, share of values that are at most this), thinned to so many points."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return []
    ranks = sorted({round(k * (count - 1) / (points - 1)) for k in range(points)})
    return [(ordered[rank], (rank + 1) / count) for rank in ranks]


def averaged(samples: Sequence[Point], begin: float, end: float, buckets: int = 320) -> list[Point]:
    """A value that holds until the next sample, as its mean over even stretches of time."""
    if not samples or end <= begin:
        return []
    width = (end - begin) / buckets
    sums = [0.0] * buckets
    ends = [time for time, _ in samples[1:]] + [end]
    for (time, value), until in zip(samples, ends, strict=True):
        _spread(sums, value, (max(time, begin) - begin) / width, (min(until, end) - begin) / width)
    return [((k + 0.5) * width, total) for k, total in enumerate(sums)]


def _spread(sums: list[float], value: float, start: float, stop: float) -> None:
    first = int(start)
    while start < stop and first < len(sums):
        upto = min(stop, first + 1.0)
        sums[first] += value * (upto - start)
        start, first = upto, first + 1


# --- drawings


def line_chart(
    lines: Sequence[Line], x: Axis, y: Axis, x_title: str, y_title: str, marks: Sequence[tuple[float, str]] = ()
) -> str:
    """`marks` are moments, with what happened then."""
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(point: Point) -> str:
        return f"{LEFT + inner_width * x.place(point[0]):.1f},{TOP + inner_height * (1 - y.place(point[1])):.1f}"

    curves = "".join(
        f'<polyline class="line {style(line.colour)}" data-series="{line.colour}" '
        f'points="{" ".join(map(at, line.points))}">'
        f"<title>{escape(line.name)}</title></polyline>"
        for line in lines
    )
    curves += "".join(
        f'<path class="mark" d="M{LEFT + inner_width * x.place(at):.1f} {TOP}v{inner_height}">'
        f"<title>{escape(words)}</title></path>"
        for at, words in marks
    )
    return _svg(HEIGHT, _grid(x, y, HEIGHT) + curves + _titles(x_title, y_title, HEIGHT), f"{y_title} by {x_title}")


def area_chart(lines: Sequence[Line], x: Axis, y: Axis, x_title: str, y_title: str) -> str:
    """Each on top of the one before. All have a value at the same points."""
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    below = [0.0] * max((len(line.points) for line in lines), default=0)
    areas = ""
    for line in lines:
        above = [low + value for low, (_, value) in zip(below, line.points, strict=True)]
        outline = [(at, top) for (at, _), top in zip(line.points, above, strict=True)]
        outline += [(at, low) for (at, _), low in zip(line.points[::-1], below[::-1], strict=True)]
        corners = " ".join(
            f"{LEFT + inner_width * x.place(at):.1f},{TOP + inner_height * (1 - y.place(value)):.1f}"
            for at, value in outline
        )
        words = f"<title>{escape(line.name)}</title>"
        areas += f'<polygon class="job {style(line.colour)}" points="{corners}">{words}</polygon>'
        below = above
    return _svg(HEIGHT, _grid(x, y, HEIGHT) + areas + _titles(x_title, y_title, HEIGHT), f"{y_title} by {x_title}")


def bar_chart(values: Sequence[tuple[str, float, int]], title: str) -> str:
    """Horizontal bars: (name, value, colour)."""
    row, label = 24, 150
    height = row * len(values) + 8
    most = max((value for _, value, _ in values), default=0.0) or 1.0
    room = 420 - label - 70
    parts = []
    for k, (name, value, colour) in enumerate(values):
        y, width = 4 + row * k, max(1.0, room * value / most) if value else 0.0
        parts.append(
            f'<text class="name" x="{label - 8}" y="{y + 15}" text-anchor="end">{escape(_short(name, 22))}</text>'
            f'<rect class="bar s{colour % COLOURS}" data-series="{colour}" x="{label}" y="{y + 4}" width="{width:.1f}" '
            f'height="14" rx="2"><title>{escape(name)}: {value:,.0f}</title></rect>'
            f'<text class="value" x="{label + width + 6:.1f}" y="{y + 15}">{value:,.0f}</text>'
        )
    return _svg(height, "".join(parts), title, width=420)


@dataclass(frozen=True, slots=True)
class Interval:
    name: str
    mean: float
    ends: tuple[float, float] | None  # None: not known
    colour: int


def interval_chart(intervals: Sequence[Interval], title: str) -> str:
    """A dot for each mean and a line for its interval, beside a line at 0."""
    row, label, width = 24, 150, 420
    height = row * len(intervals) + 8 + BOTTOM // 2
    reach = [value for one in intervals for value in (one.mean, *(one.ends or ()))]
    step = nice_step(max(max(map(abs, reach), default=0.0), 1e-6) / 3)
    low, high = (step * fit(value / step) for fit, value in ((math.floor, min(0, *reach)), (math.ceil, max(0, *reach))))
    axis = Axis(low, high or step, ())

    def at(value: float) -> float:
        return label + (width - label - RIGHT) * axis.place(value)

    parts = [f'<path class="mark" d="M{at(0):.1f} 0V{height - BOTTOM // 2}"/>']
    parts += [
        f'<text class="tick" x="{at(tick):.1f}" y="{height - 4}" text-anchor="middle">{tick:g}</text>'
        for tick in sorted({low, 0.0, high})
    ]
    for k, one in enumerate(intervals):
        y, words = 4 + row * k + row // 2, f"{one.mean:+.2f} %"
        if one.ends:
            words += f" ({one.ends[0]:+.2f} to {one.ends[1]:+.2f})"
            parts.append(
                f'<path class="line {style(one.colour)}" d="M{at(one.ends[0]):.1f} {y}H{at(one.ends[1]):.1f}"/>'
            )
        parts.append(
            f'<text class="name" x="{label - 8}" y="{y + 4}" text-anchor="end">{escape(_short(one.name, 22))}</text>'
            f'<circle class="bar s{one.colour % COLOURS}" cx="{at(one.mean):.1f}" cy="{y}" r="4">'
            f"<title>{escape(one.name)}: {words}</title></circle>"
        )
    return _svg(height, "".join(parts), title, width=width)


@dataclass(frozen=True, slots=True)
class Span:
    """A bar of a timeline: a job on a node for a while."""

    row: int  # the node
    start: float
    end: float
    lanes: int  # GPUs
    job: int
    words: str


@dataclass(slots=True)
class Timeline:
    """Bars on rows, in lanes below each other within a row."""

    rows: Sequence[tuple[str, int]]  # (name of the node, its GPUs)
    end: float
    lane: float = field(init=False)

    def __post_init__(self) -> None:
        lanes = sum(size for _, size in self.rows) or 1
        self.lane = min(14.0, max(2.5, 620 / lanes))

    def draw(self, spans: Iterable[Span]) -> str:
        tops, y = [], float(TOP)
        for _, size in self.rows:
            tops.append(y)
            y += size * self.lane + 4
        height = round(y + BOTTOM)
        x = time_axis(self.end)
        parts = [_grid(x, None, height)]
        parts += [self._row(name, top, size) for (name, size), top in zip(self.rows, tops, strict=True)]
        for span, lanes in self._laid_out(spans):
            parts += [self._bar(span, tops[span.row] + first * self.lane, count, x) for first, count in lanes]
        return _svg(
            height, "".join(parts) + _titles("time since the first arrival", "", height), "jobs on nodes by time"
        )

    def _row(self, name: str, top: float, size: int) -> str:
        height = size * self.lane
        return (
            f'<rect class="row" x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{height:.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{top + height / 2 + 3.5:.1f}" text-anchor="end">'
            f"{escape(_short(name, 10))}</text>"
        )

    def _bar(self, span: Span, y: float, lanes: int, x: Axis) -> str:
        room = WIDTH - LEFT - RIGHT
        start, end = x.place(span.start) * room, x.place(span.end) * room
        return (
            f'<rect class="job s{span.job % COLOURS}" x="{LEFT + start:.1f}" y="{y:.1f}" '
            f'width="{max(0.5, end - start - 0.3):.1f}" height="{lanes * self.lane - 0.6:.1f}">'
            f"<title>{escape(span.words)}</title></rect>"
        )

    def _laid_out(self, spans: Iterable[Span]) -> Iterable[tuple[Span, list[tuple[int, int]]]]:
        """Each span with the lanes it takes, as (first, how many): those that were free for longest come first."""
        free = [[0.0] * size for _, size in self.rows]
        for span in sorted(spans, key=lambda s: (s.start, s.end, s.job)):
            lanes = free[span.row]
            open_lanes = [k for k, until in enumerate(lanes) if until <= span.start + 1e-6]
            taken = (open_lanes or list(range(len(lanes))))[: span.lanes]
            for k in taken:
                lanes[k] = span.end
            yield span, _runs(taken)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours together: 0, 1, 4 is (0, 2), (4, 1)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and sum(runs[-1]) == number:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _grid(x: Axis, y: Axis | None, height: int) -> str:
    inner_width, inner_height = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM
    parts = []
    for value, words in x.ticks:
        at = LEFT + inner_width * x.place(value)
        anchor = "end" if at > WIDTH - 40 else "middle"
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{TOP + inner_height}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{height - BOTTOM + 14}" text-anchor="{anchor}">{words}</text>'
        )
    for value, words in y.ticks if y else ():
        at = TOP + inner_height * (1 - y.place(value)) if y else 0.0
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{words}</text>')
    return "".join(parts)


def _titles(x_title: str, y_title: str, height: int) -> str:
    middle, centre = TOP + (height - TOP - BOTTOM) / 2, LEFT + (WIDTH - LEFT - RIGHT) / 2
    upright = f'<text class="axis" transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{y_title}</text>'
    across = f'<text class="axis" x="{centre}" y="{height - 4}" text-anchor="middle">{x_title}</text>'
    return across + (upright if y_title else "")


def _svg(height: int, content: str, title: str, width: int = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'style="max-width:{width}px">{content}</svg>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
