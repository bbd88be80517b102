"""Small things that many views are made of."""

from collections.abc import Sequence
from colorsys import hls_to_rgb
from datetime import datetime
from functools import cache

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.wire.words import duration, instant, number

_GOLDEN = 137.508  # degrees: neighbours in number are far apart in colour
_READABLE = 4.6  # a contrast, with a little to spare for rounding
_WIDTH, _HEIGHT = 96, 22  # of a sparkline


def hue(job: int) -> str:
    """The colour of a job, the same everywhere, as a style."""
    return f"--h:{_hue(job)}"


def colour(job: int, saturation: int = 52) -> str:
    """The same in full; dark enough for white words on it."""
    degrees = _hue(job)
    return f"hsl({degrees},{saturation}%,{_dark(degrees, saturation)}%)"


def _hue(job: int) -> int:
    return round(job * _GOLDEN) % 360


@cache
def _dark(hue: int, saturation: int) -> int:
    """The greatest lightness, in percent, on which white words can be read: yellow must be darker than blue."""
    return next(light for light in range(44, 0, -1) if contrast_with_white(hue, saturation, light) >= _READABLE)


def contrast_with_white(hue: int, saturation: int, light: int) -> float:
    """As WCAG has it: 4.5 and more is enough for small words."""
    linear = [(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4)
              for x in hls_to_rgb(hue / 360, light / 100, saturation / 100)]  # fmt: skip
    return 1.05 / (sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)


def dot(job: int) -> Safe:
    return el("i", class_="dot", style=hue(job), aria_hidden="true")


def job_link(job: int, name: str = "") -> Safe:
    """`● 17 mnist`"""
    words = [el("span", job, class_="id"), el("span", name, class_="name", title=name) if name else None]
    return el("a", dot(job), *words, class_="job", href=f"/jobs/{job}")


def pill(state: str) -> Safe:
    return el("span", state, class_=f"pill {state}")


def bar(share: float, kind: str = "") -> Safe:
    """How much of something, 0..1."""
    percent = 100 * max(0.0, min(1.0, share))
    return el("span", el("span", style=f"width:{percent:.1f}%"), class_=f"bar {kind}".strip(), aria_hidden="true")


def spark(values: Sequence[float | None], job: int) -> Safe:
    """A curve as small as a word."""
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return Safe("")
    low, high = min(v for _, v in known), max(v for _, v in known)
    span, last = (high - low) or 1.0, max(1, len(values) - 1)
    points = [(2 + at / last * (_WIDTH - 4), 2 + (_HEIGHT - 4) * (1 - (value - low) / span)) for at, value in known]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    label = f"from {number(known[0][1])} to {number(known[-1][1])}"
    return el(
        "svg",
        el("polyline", points=line),
        el("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="2"),
        class_="spark",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        style=hue(job),
        role="img",
        aria_label=label,
    )


def when(at: str | None) -> Safe:
    """A moment; the browser puts it into the reader's time zone."""
    return el("time", at[11:19], datetime=at) if at else Safe("")


def since(at: str | None, now: datetime) -> str:
    """`3 min`"""
    begin = instant(at)
    return duration(max(0.0, round((now - begin).total_seconds()))) if begin else ""


def cores(amount: float | None) -> str:
    """`0.93`, `1.5`, `12`"""
    return "" if amount is None else f"{round(amount, 2):g}" if amount < 10 else f"{amount:.4g}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def panel(title: str, *content: Child, note: Child = None) -> Safe:
    head = el("h2", title, el("span", note, class_="note") if note else None)
    return el("section", head, *content, class_="panel")


# How a first job is started.
START = join(el("code", "schedulearn run -- python train.py"), ", or ", el("a", "fill in a form", href="/submit"))


def problem(words: Child, *more: Child) -> Safe:
    """What is wrong; read out at once where a screen reader is used."""
    return el("p", words, *more, class_="problem", role="alert")


def empty(words: str, *more: Child) -> Safe:
    return el("p", words, join(*more), class_="empty")


def coded(words: str) -> Safe:
    """A text of ours, in which names stand in backticks."""
    return join(el("code", part) if n % 2 else part for n, part in enumerate(words.split("`")))


def facts(pairs: Sequence[tuple[str, Child]]) -> Safe:
    """Names and values; a value that is empty is left out."""
    shown = [(name, value) for name, value in pairs if value not in ("", None)]
    return el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in shown], class_="facts")
