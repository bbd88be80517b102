"""Curves as options of ECharts: what a job learned, and what it used, on one axis of time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from schedulearn.wire import types
from schedulearn.wire.words import instant

Option = dict[str, Any]
Points = list[tuple[float, float | None]]  # milliseconds since the epoch, value
Read = Callable[[types.Look], float | None]

GREY, LINE = "#8791a0", "rgba(128,140,160,.18)"  # fit both themes
_COLOURS = ["#4a7dff", "#e5853b", "#2fa66e", "#b45ad1", "#d6494f", "#1d9aa8"]
AXIS: Option = {
    "axisLine": {"lineStyle": {"color": LINE}},
    "axisLabel": {"color": GREY, "fontSize": 11, "hideOverlap": True},
}
_SPLIT = {"splitLine": {"lineStyle": {"color": LINE}}}
TOOLTIP = {
    "trigger": "axis",
    "confine": True,
    "transitionDuration": 0,
    "extraCssText": "background:var(--panel);color:var(--ink);border-color:var(--line);font-size:12px",
}
_TOGETHER = 1000.0  # milliseconds: looks at the workers of a job that are so close are one
_HEIGHT, _GAP, _TOP = 78, 30, 26  # pixels of one strip, between two, and above the first
_RESIZED = ("resized", "worker_lost")


def learning(series: Sequence[types.Series]) -> Option:
    """Every metric by step."""
    return {
        "animation": False,
        "color": _COLOURS,
        "tooltip": TOOLTIP,
        "legend": {"top": 0, "textStyle": {"color": GREY}, "show": len(series) > 1, "type": "scroll"},
        "grid": {"left": 52, "right": 16, "top": 30 if len(series) > 1 else 12, "bottom": 44},
        "xAxis": {**AXIS, "type": "value", "name": "step", "nameLocation": "middle", "nameGap": 26, "min": "dataMin",
                  "max": "dataMax", "axisLabel": {**AXIS["axisLabel"], "showMaxLabel": False},
                  "splitLine": {"show": False}, "nameTextStyle": {"color": GREY}},
        "yAxis": {**AXIS, **_SPLIT, "type": "value", "scale": True},
        "dataZoom": [{"type": "inside"}],
        "series": [
            {"type": "line", "name": one["name"], "showSymbol": len(one["points"]) < 3, "lineStyle": {"width": 1.8},
             "data": [[step, value] for step, value, _ in one["points"]]}
            for one in series
        ],
    }  # fmt: skip


def over_time(
    used: Mapping[int, Sequence[types.WorkerUsage]],  # by attempt
    attempts: Sequence[types.Attempt],
    events: Sequence[types.Event],
    series: Sequence[types.Series],
    metric: str,
    until: float | None = None,  # milliseconds: now, while it runs
) -> Option:
    """The metric, workers, cores, memory and traffic, strip by strip over the same time; changes are marked."""
    strips = [
        ("workers", [("workers", worker_counts(attempts, until), "step")]),
        ("cores", [("used", _summed(used, lambda look: look["cpus"]), "area"),
                   ("limit", _summed(used, lambda look: look["cpus_limit"]), "limit")]),
        ("memory, MB", [("memory", _summed(used, lambda look: _mega(look["memory"])), "area")]),
        ("disk, MB/s", [("disk", _rates(used, "read_bytes", "written_bytes"), "area")]),
        ("network, MB/s", [("network", _rates(used, "received_bytes", "sent_bytes"), "area")]),
    ]  # fmt: skip
    strips = [strip for strip in strips if any(points for _, points, _ in strip[1])]
    learned = [(milliseconds(at), value) for one in series if one["name"] == metric for _, value, at in one["points"]]
    if learned:
        strips.insert(0, (metric, [(metric, learned, "line")]))
    return _strips(strips, marks(events))


def height(option: Option) -> int:
    """Pixels that a chart of strips needs."""
    return _TOP + len(option["grid"]) * (_HEIGHT + _GAP) + 20


def _strips(strips: Sequence[tuple[str, Sequence[tuple[str, Points, str]]]], marked: list[Option]) -> Option:
    last = len(strips) - 1
    moments = [at for _, lines in strips for _, points, _ in lines for at, _ in points]
    span = {"min": min(moments, default=None), "max": max(moments, default=None)}  # the same for all
    return {
        "animation": False,
        "tooltip": TOOLTIP,
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "dataZoom": [{"type": "inside", "xAxisIndex": list(range(len(strips)))}],
        "title": [{"text": name, "left": 0, "top": _TOP + n * (_HEIGHT + _GAP) - 22,
                   "textStyle": {"color": GREY, "fontSize": 11, "fontWeight": "normal"}}
                  for n, (name, _) in enumerate(strips)],
        "grid": [{"left": 52, "right": 16, "top": _TOP + n * (_HEIGHT + _GAP), "height": _HEIGHT}
                 for n in range(len(strips))],
        "xAxis": [{**AXIS, **span, "type": "time", "gridIndex": n, "splitLine": {"show": False},
                   "axisLabel": {**AXIS["axisLabel"], "show": n == last}} for n in range(len(strips))],
        "yAxis": [{**AXIS, **_SPLIT, "type": "value", "gridIndex": n, "splitNumber": 2, "scale": n == 0,
                   "minInterval": 1 if name == "workers" else 0} for n, (name, _) in enumerate(strips)],
        "series": [
            _line(name, points, kind, n, marked if k == 0 else [])
            for n, (_, lines) in enumerate(strips)
            for k, (name, points, kind) in enumerate(lines)
        ],
    }  # fmt: skip


def _line(name: str, points: Points, kind: str, strip: int, marked: list[Option]) -> Option:
    colour = "#e5853b" if kind == "limit" else _COLOURS[strip % len(_COLOURS)]
    option: Option = {
        "type": "line", "name": name, "xAxisIndex": strip, "yAxisIndex": strip, "data": points,
        "showSymbol": len(points) < 2, "itemStyle": {"color": colour},
        "lineStyle": {"width": 1.6, "color": colour, "type": "dashed" if kind == "limit" else "solid"},
    }  # fmt: skip
    if kind in ("step", "limit"):
        option["step"] = "end"
    if kind in ("area", "step"):
        option["areaStyle"] = {"color": colour, "opacity": 0.14}
    if marked:
        labels = {"show": strip == 0, "color": GREY, "fontSize": 10, "formatter": "{b}"}
        option["markLine"] = {
            "silent": True, "symbol": "none", "animation": False, "data": marked, "label": labels,
            "lineStyle": {"color": GREY, "type": "dotted", "width": 1},
        }  # fmt: skip
    return option


def marks(events: Iterable[types.Event]) -> list[Option]:
    """Resizes, moves and further attempts, as lines across all strips."""
    found: list[Option] = []
    for event in events:
        words = _mark(event)
        if words:
            found.append({"xAxis": milliseconds(event["at"]), "name": words})
    return found


def _mark(event: types.Event) -> str:
    data = event["data"]
    if event["kind"] in _RESIZED:
        return f"{data['from']}→{data['to']}" if "from" in data else "worker lost"
    if event["kind"] == "migrated":
        return "moved"
    if event["kind"] == "stop" and event["cause"].startswith("resized"):
        return "resized"
    if event["kind"] == "start" and (event["attempt"] or 0) > 1:
        return f"attempt {event['attempt']}"
    return ""


# --- figures from looks


def worker_counts(attempts: Sequence[types.Attempt], until: float | None = None) -> Points:
    """How many workers ran, whenever that changed, and now."""
    changes: list[tuple[float, int]] = []
    for attempt in attempts:
        for worker in attempt["workers"]:
            if worker["started_at"]:
                changes.append((milliseconds(worker["started_at"]), 1))
                if end := worker["left_at"] or worker["ended_at"]:
                    changes.append((milliseconds(end), -1))
    count, points = 0, dict[float, float | None]()
    for at, change in sorted(changes):
        count += change
        points[at] = count
    if count and until:
        points[until] = count
    return list(points.items())


def _summed(used: Mapping[int, Sequence[types.WorkerUsage]], read: Read) -> Points:
    """Over the workers of each attempt; a gap between attempts."""
    points: Points = []
    for attempt in sorted(used):
        looks = [(milliseconds(look["at"]), n, read(look)) for n, w in enumerate(used[attempt]) for look in w["points"]]
        points += _merged(looks)
    return points if any(value is not None for _, value in points) else []


def _merged(looks: Iterable[tuple[float, int, float | None]]) -> Points:
    """The sum of what was seen last of each worker, once for looks that belong together."""
    seen: dict[int, float] = {}
    points: Points = []
    for at, worker, value in sorted(looks, key=lambda look: look[:2]):
        if value is not None:
            seen[worker] = value
        total = round(sum(seen.values()), 4) if seen else None
        if points and at - points[-1][0] < _TOGETHER:
            points.pop()
        points.append((at, total))
    return [*points, (points[-1][0] + 1, None)] if points else []


def _rates(used: Mapping[int, Sequence[types.WorkerUsage]], *names: str) -> Points:
    """Megabytes a second from counters."""
    points: Points = []
    for attempt in sorted(used):
        looks: list[tuple[float, int, float | None]] = []
        for n, worker in enumerate(used[attempt]):
            for before, after in pairwise(worker["points"]):
                looks.append((milliseconds(after["at"]), n, _rate(before, after, names)))
        points += _merged(looks)
    return points if any(value is not None for _, value in points) else []


def _rate(before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]) -> float | None:
    seconds = (milliseconds(after["at"]) - milliseconds(before["at"])) / 1000
    if seconds <= 0 or any(look[name] is None for look in (before, after) for name in names):
        return None
    return float(sum(max(0, after[name] - before[name]) for name in names)) / seconds / 1e6


def milliseconds(at: str) -> float:
    moment = instant(at)
    return round(moment.timestamp() * 1000) if moment else 0.0


def _mega(amount: int | None) -> float | None:
    return None if amount is None else round(amount / 1e6, 1)
