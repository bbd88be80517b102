"""Comparisons and experiments: the list of them, what each says in short, and its report in a frame."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from schedulearn.dashboard.views import predictions
from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import bar, empty, panel, percent, since, when
from schedulearn.dashboard.views.table import Column, table, whole_table
from schedulearn.wire import types

_KINDS = {"done": "succeeded", "cancelled": "cancelled"}  # the colour of a state


def address(study: types.Study) -> str:
    return f"/results/{quote(study['name'], safe='')}"


def listed(studies: Sequence[types.Study], now: datetime) -> Safe:
    if not studies:
        hint = join(
            "Compare policies on the page ",
            el("a", "Policies", href="/policies"),
            ", or run an experiment into the service's data folder: ",
        )
        return empty(
            "No report yet. ", hint, el("code", "schedulearn experiment run fixed-3 --out DATA/reports/fixed-3")
        )
    columns = (
        Column("Report", _link, "grow"),
        Column("Kind", lambda study: study["kind"], "w2"),
        Column("State", state),
        Column("By", lambda study: study["user"], "w2"),
        Column("When", lambda study: f"{since(study['created_at'], now)} ago", "num"),
        Column("In short", lambda study: el("span", in_short(study), class_="clamp"), "why"),
    )
    return table(columns, studies, "Reports")


def _link(study: types.Study) -> Safe:
    return el("a", study["title"], href=address(study), class_="name", title=study["title"])


def state(study: types.Study) -> Safe:
    if study["state"] == "running":
        return progress(study)
    kind = _KINDS.get(study["state"], study["state"])
    return el("span", study["state"], class_=f"pill {kind}")


def progress(study: types.Study) -> Safe:
    """How far it is."""
    told = study["progress"]
    share = told["done"] / told["total"] if told and told["total"] else 0.0
    label = f"{told['policy']}: {percent(share)}" if told and told["total"] else "reading"
    meter = el(
        "span", bar(share), role="progressbar", aria_label=study["title"], aria_valuemin=0, aria_valuemax=100,
        aria_valuenow=round(100 * share),
    )  # fmt: skip
    return el("span", meter, el("span", label, class_="num"), class_="progress")


def in_short(study: types.Study) -> str:
    """The best of the first column of figures, if the report says which it is; else what it is about."""
    if study["problem"]:
        return study["problem"]
    found = study["summary"]
    for row, best in zip(found["rows"], found["best"], strict=False) if found else ():
        if found and len(best) > 1 and best[1]:
            return f"best {found['columns'][1]}: {row[0]}, {row[1]}; {study['about']}"
    return study["about"]


def headline(study: types.Study) -> Safe:
    by = f"{study['kind']} by {study['user']}, " if study["user"] else f"{study['kind']}, "
    made = el("span", by, when(study["created_at"]), class_="note")
    return join(el("h1", study["title"]), state(study), el("span", study["about"]), made)


def trouble(study: types.Study) -> Safe:
    return el("p", study["problem"], class_="problem") if study["problem"] else Safe("")


def figures(study: types.Study) -> Safe:
    """The table of the report; the best of a column stands out."""
    found = study["summary"]
    if not found or not found["rows"]:
        return Safe("")
    words = 1 if found["best"] else len(found["columns"])  # columns that are no figures
    head = [el("th", c, scope="col", class_=None if i < words else "num") for i, c in enumerate(found["columns"])]
    marks = found["best"] or [[False] * len(found["columns"])] * len(found["rows"])
    body = [
        el(
            "tr",
            [_figure(c, i >= words, b, t) for i, (c, b, t) in enumerate(zip(row, best, found["columns"], strict=True))],
        )
        for row, best in zip(found["rows"], marks, strict=False)
    ]
    return whole_table(head, body, "Figures")


def _figure(cell: str, is_number: bool, is_best: bool, title: str) -> Safe:
    kind = " ".join(word for word, fits in (("num", is_number), ("best", is_best)) if fits)
    return el("td", cell, class_=kind or None, data_label=title if is_number else None)


def report(study: types.Study) -> Safe:
    """In a frame that can neither reach the page nor load anything; the answer itself says so too."""
    source, title = f"{address(study)}/report", f"Report: {study['title']}"
    return el("iframe", src=source, sandbox="allow-scripts", title=title, class_="report", loading="lazy")


def _own_page(study: types.Study) -> Safe:
    return el("a", "open on its own", href=f"{address(study)}/report", target="_blank", rel="noopener")


def result(study: types.Study) -> Safe:
    """What came of a comparison, and its report for who opens it."""
    title, link = f"Comparison: {study['title']}", el("a", "all results", href="/results")
    if study["prediction"]:
        return join(trouble(study), predictions.shown(study["prediction"], datetime.now(UTC), link))
    if not study["has_report"]:
        return panel(title, trouble(study) or el("p", study["state"], class_="empty"), note=link)
    words = el("p", f"{study['about']}; the best of each column is marked. JCT: from arrival to end.", class_="empty")
    whole = el("details", el("summary", "The whole report"), el("p", _own_page(study), class_="empty"), report(study))
    return panel(title, trouble(study), words, figures(study), whole, note=link)


def whole(study: types.Study) -> Safe:
    """The report; where there is little room, its figures stand before it, too."""
    if study["prediction"]:
        return predictions.shown(study["prediction"], datetime.now(UTC))
    if not study["has_report"]:
        return Safe("")
    return join(
        el("div", panel("Figures", figures(study)), class_="narrow"),
        panel("Report", report(study), note=_own_page(study)),
    )
