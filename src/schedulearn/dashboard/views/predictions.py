"""When the jobs of a moment end under several policies."""

from datetime import datetime

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import job_link, panel, pill
from schedulearn.dashboard.views.table import Column, table, whole_table
from schedulearn.wire import predictions
from schedulearn.wire.types import Finish, PredictedJob, Prediction
from schedulearn.wire.words import clock

_KINDS = {1: "num sooner", 0: "num", -1: "num later"}


def shown(told: Prediction, now: datetime, *note: Child) -> Safe:
    notes = [el("p", words, class_="note") for words in predictions.notes(told, now)]
    title = f"What if: the jobs of {clock(told['at'], now)}"
    return panel(
        title,
        _averages(told),
        el("div", _jobs(told), class_="ends"),
        el("div", notes, class_="words"),
        note=join(*note),
    )


def _averages(told: Prediction) -> Safe:
    """The policies in short, the one in force first."""
    first, best = told["policies"][0], predictions.best(told)
    present = told["average"][first]
    rows = [
        el(
            "tr",
            el("td", el("b", name), el("small", " in force") if name == first else None),
            el("td", _words(end), class_="num best" if name == best else "num", data_label="average completion"),
            el(
                "td", _against(end, present) if name != first else None, class_=_kind(end, present), data_label="change"
            ),
        )
        for name in told["policies"]
        for end in (told["average"][name],)
    ]
    heads = [
        el("th", title, scope="col", class_=kind)
        for title, kind in (("Policy", None), ("Average completion", "num"), ("Change", "num"))
    ]
    return whole_table(heads, rows, "Average completion")


def _jobs(told: Prediction) -> Safe:
    columns = [
        Column("Job", lambda job: job_link(job["job"], job["name"]), "grow"),
        Column("State", lambda job: pill(job["state"])),
        *(_of_policy(told, name) for name in told["policies"]),
    ]
    return table(columns, told["jobs"], "When each job ends")


def _of_policy(told: Prediction, name: str) -> Column:
    first = told["policies"][0]

    def cell(job: PredictedJob) -> Child:
        end = job["finishes"][name]
        words = _words(end, is_assumed=job["source"] is None)
        kind = _kind(end, job["finishes"][first])
        return el("span", words, class_=kind.removeprefix("num").strip() or None)

    return Column(f"{name}{' (now)' if name == first else ''}", cell, "num")


def _words(end: Finish | None, *, is_assumed: bool = False) -> Child:
    """The range smaller than what is expected."""
    expected, bracket, rest = predictions.finish(end, is_assumed=is_assumed).partition(" (")
    return join(expected, el("small", bracket + rest) if rest else None)


def _kind(end: Finish | None, present: Finish | None) -> str:
    return _KINDS[predictions.verdict(end, present)]


def _against(end: Finish | None, present: Finish | None) -> str:
    """`-12 %`"""
    if end is None or present is None or not present["expected"]:
        return ""
    return f"{100 * (end['expected'] / present['expected'] - 1):+.0f} %".replace("-0 %", "0 %").replace("+0 %", "0 %")
