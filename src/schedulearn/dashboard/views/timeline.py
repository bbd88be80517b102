"""Jobs over servers through time: which time is shown, the bars and their lanes, and the chart of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any
from urllib.parse import parse_qs, urlencode

from schedulearn.dashboard.views.charts import AXIS, GREY, LINE, TOOLTIP, Option
from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import colour, empty, job_link, when
from schedulearn.dashboard.views.table import Column, table
from schedulearn.wire import types
from schedulearn.wire.words import duration, instant

SPANS = (
    (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"), (86400, "1 d"), (7 * 86400, "1 w"),
    (30 * 86400, "30 d"),
)  # fmt: skip
USUAL = 6 * 3600  # the longest that is chosen unasked
MOST_ROWS = 50
_FADED = 30  # the saturation of what is over, in percent
_LONGEST = 366 * 86400
_ENDED, _RUNS, _FAILED = range(3)  # as static/timeline.js has them
_HEAD, _BAR, _GAP, _FOOT = 26, 20, 3, 8  # pixels of a server's name, a bar, between two bars, and below the last
_THIN, _ROOM = 6, 900  # the thinnest bar; all bars together are made thinner to fit into this
_BELOW, _ABOVE, _SIDE = 62, 6, 14  # for the axis with the slider, above, and at both sides
Key = tuple[int, int, str]  # job, attempt, node


@dataclass(frozen=True, slots=True)
class Window:
    """Which time is shown; it stands in the page's address."""

    span: int = 0  # seconds; 0: whatever shows all that there is, a few hours at the most
    until: float | None = None  # seconds since the epoch; None: now, and it goes on

    @classmethod
    def parse(cls, query: str) -> "Window":
        """What makes no sense is left out."""
        given = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        span = given.get("span", "")
        try:
            until = instant(given.get("until"))
        except ValueError:
            until = None
        return cls(
            max(10, min(int(span), _LONGEST)) if span.isascii() and span.isdigit() and len(span) < 12 else 0,
            until.timestamp() if until and until.year > 1970 else None,
        )

    @property
    def address(self) -> str:
        told = {"span": self.span} if self.span else {}
        until = {} if self.until is None else {"until": iso(self.until)}
        return "/timeline" + (f"?{urlencode(told | until)}" if told or until else "")

    def fitted(self, at: float, first_at: float) -> "Window":
        """As it can be shown: nothing that is to come, and with a length. If none was asked for it is the shortest that
        shows everything, up to six hours."""
        age = at - (first_at or at)
        span = self.span or next((span for span, _ in SPANS if age < span < USUAL), USUAL)
        return Window(span, None if self.until is not None and self.until >= at else self.until)

    def moved(self, at: float, seconds: float) -> "Window":
        """Earlier or later; up to now."""
        until = (at if self.until is None else self.until) + seconds
        return Window(self.span, None if until >= at else until)

    def scaled(self, at: float, span: int) -> "Window":
        """Shorter or longer around the same middle; what goes on goes on."""
        wider = Window(span, self.until)
        return wider if self.until is None else wider.moved(at, (span - self.span) / 2)


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def tools(window: Window, at: float) -> Safe:
    """The way to another time, and which it is."""

    def link(words: Child, to: Window, label: str | None = None, here: bool = False) -> Safe:
        return el(
            "a", words, href=to.address, data_go=True, aria_label=label, aria_current="true" if here else None,
            class_="choice",
        )  # fmt: skip

    live = window.until is None
    until = at if window.until is None else window.until
    later = (
        link("›", window.moved(at, window.span / 2), "later")
        if not live
        else el("span", "›", class_="choice", aria_hidden="true")
    )
    return el(
        "div",
        el(
            "nav",
            link("‹", window.moved(at, -window.span / 2), "earlier"),
            later,
            link(join(el("i", class_="pulse", aria_hidden="true"), "Live"), Window(window.span), here=live),
            aria_label="Time",
        ),
        el(
            "nav",
            [link(words, window.scaled(at, span), here=span == window.span) for span, words in SPANS],
            aria_label="Length",
        ),
        el("span", when(iso(until - window.span)), " – ", "now" if live else when(iso(until)), class_="note"),
        class_="tools",
    )


# --- bars


@dataclass(frozen=True, slots=True)
class Bar:
    """The time of an attempt on a node, of all its workers there."""

    key: Key
    name: str
    user: str
    workers: int
    devices: tuple[str, ...]
    start: float  # seconds since the epoch
    end: float | None  # None: it runs still
    stop: str  # why it was told to stop
    exit: str  # how it ended, if it failed and was not stopped

    def ran(self, at: float) -> float:
        return max(0.0, (at if self.end is None else self.end) - self.start)


def bars(spans: Iterable[types.Span]) -> list[Bar]:
    """In the order of their start."""
    found: dict[Key, list[types.Span]] = {}
    for span in spans:
        _, attempt, _ = span["worker"].split(".")
        found.setdefault((span["job"], int(attempt), span["node"]), []).append(span)
    return sorted((_bar(key, some) for key, some in found.items()), key=lambda bar: (bar.start, bar.key))


def _bar(key: Key, spans: Sequence[types.Span]) -> Bar:
    ends = [seconds(span["ended_at"]) for span in spans if span["ended_at"]]
    stop = next((span["stop"] for span in spans if span["stop"]), None) or ""
    exits = [span["exit"]["text"] for span in spans if span["exit"] and span["exit"]["code"] != 0]
    return Bar(
        key,
        spans[0]["name"],
        spans[0]["user"],
        len(spans),
        tuple(sorted({device for span in spans for device in span["devices"]})),
        min(seconds(span["started_at"]) for span in spans),
        max(ends) if len(ends) == len(spans) else None,
        stop,
        exits[0] if exits and not stop else "",
    )


def seconds(at: str | None) -> float:
    """Since the epoch; 0 for nothing."""
    moment = instant(at)
    return moment.timestamp() if moment else 0.0


def lanes(drawn: Sequence[Bar], before: Mapping[Key, int]) -> dict[Key, int]:
    """A lane of its server for each bar, so that none covers another. A bar stays in the lane that it had before.

    Bars come in the order of their start; those that had a lane do not cover each other, since they did not then.
    """
    ends: dict[tuple[str, int], float] = {}
    found: dict[Key, int] = {}
    for bar in sorted(drawn, key=lambda bar: bar.key not in before):
        node, lane = bar.key[2], before.get(bar.key, 0)
        while bar.key not in before and ends.get((node, lane), 0.0) > bar.start:
            lane += 1
        found[bar.key] = lane
        ends[node, lane] = max(ends.get((node, lane), 0.0), inf if bar.end is None else bar.end)
    return found


# --- the chart


def chart(
    drawn: Sequence[Bar], placed: Mapping[Key, int], nodes: Sequence[str], window: Window, at: float, anew: bool
) -> Option:
    """Servers below each other. `anew` zooms out to the whole window."""
    until = at if window.until is None else window.until
    count = {node: 1 + max((placed[bar.key] for bar in drawn if bar.key[2] == node), default=0) for node in nodes}
    thick = max(_THIN, min(_BAR, _ROOM // max(1, sum(count.values())) - _GAP))
    tops, bands, y = dict[str, int](), list[list[Any]](), 0
    for node in nodes:
        height = _HEAD + count[node] * (thick + _GAP) + _FOOT
        tops[node] = y + _HEAD
        bands.append([(until - window.span) * 1000, y, height, node])
        y += height
    items = [_item(bar, tops[bar.key[2]] + placed[bar.key] * (thick + _GAP), thick, at) for bar in drawn]
    return {
        "animation": False,
        "tooltip": {**TOOLTIP, "trigger": "item", ":formatter": "schedulearn.tip"},
        "grid": {"left": _SIDE, "right": _SIDE, "top": _ABOVE, "height": y},
        "xAxis": {**AXIS, "type": "time", "min": (until - window.span) * 1000, "max": until * 1000,
                  "splitLine": {"show": True, "lineStyle": {"color": LINE}}},
        "yAxis": {"type": "value", "min": 0, "max": max(1, y), "inverse": True, "show": False},
        "dataZoom": [_zoom("inside", anew), {**_zoom("slider", anew), **_SLIDER}],
        "series": [
            {"type": "custom", ":renderItem": "schedulearn.band", "silent": True, "tooltip": {"show": False},
             "dimensions": _dimensions("at", "y", "height", "name"), "encode": {"x": 0, "y": 1}, "data": bands},
            {"type": "custom", ":renderItem": "schedulearn.bar", "encode": {"x": [0, 1], "y": 2},
             "dimensions": _dimensions("from", "to", "y", "height", "how", "name"), "data": items},
        ],
    }  # fmt: skip


_SLIDER: Option = {
    "bottom": 6, "height": 18, "left": _SIDE, "right": _SIDE, "showDetail": False, "showDataShadow": False,
    "brushSelect": False, "borderColor": "transparent", "backgroundColor": LINE, "fillerColor": "rgba(128,140,160,.25)",
    "handleStyle": {"color": GREY, "borderColor": GREY}, "moveHandleSize": 0,
}  # fmt: skip


def _zoom(kind: str, anew: bool) -> Option:
    return {"type": kind, "filterMode": "none", **({"start": 0, "end": 100} if anew else {})}


def _dimensions(*names: str) -> list[Option]:
    return [{"name": name, "type": "ordinal" if name == "name" else "number"} for name in names]


def height(option: Option) -> int:
    """Pixels that the chart needs."""
    return int(option["grid"]["height"]) + _ABOVE + _BELOW


def _item(bar: Bar, y: int, thick: int, at: float) -> Option:
    job, attempt, node = bar.key
    label = f"{job} {bar.name}"
    how = _RUNS if bar.end is None else _FAILED if bar.exit else _ENDED
    end = at if bar.end is None else bar.end
    facts = [
        ("user", bar.user), ("on", node), ("attempt", str(attempt) if attempt > 1 else ""),
        ("workers", str(bar.workers) if bar.workers > 1 else ""), ("devices", ", ".join(bar.devices)),
        ("ran", duration(round(bar.ran(at), 1))), ("end", _end(bar)),
    ]  # fmt: skip
    return {
        "value": [bar.start * 1000, end * 1000, y, thick, how, label],
        "name": label,
        "job": job,
        "facts": [fact for fact in facts if fact[1]],
        "itemStyle": {"color": colour(job) if how == _RUNS else colour(job, _FADED)},
    }


def _end(bar: Bar) -> str:
    if bar.end is None:
        return ""
    return bar.exit or (f"stopped: {bar.stop.replace('_', ' ')}" if bar.stop else "succeeded")


# --- the same in words


def rows(drawn: Sequence[Bar], at: float) -> Safe:
    """The newest first."""
    if not drawn:
        return empty("No job ran in this time. ", el("a", "Submit one", href="/submit"))
    columns = (
        Column("Job", lambda bar: job_link(bar.key[0], bar.name), "grow"),
        Column("User", lambda bar: bar.user, "w2"),
        Column("Where", lambda bar: bar.key[2]),
        Column("Workers", lambda bar: bar.workers, "num w2"),
        Column("From", lambda bar: when(iso(bar.start)), "num"),
        Column("To", lambda bar: "running" if bar.end is None else when(iso(bar.end)), "num"),
        Column("Ran", lambda bar: duration(round(bar.ran(at))), "num"),
        Column("End", _end, "why w2"),
    )
    return table(columns, list(reversed(drawn))[:MOST_ROWS], "Jobs in this time")
