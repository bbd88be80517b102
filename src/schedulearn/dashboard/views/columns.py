"""The columns of the tables of jobs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import bar, job_link, percent, pill, since, spark
from schedulearn.dashboard.views.servers import core_words, used_of
from schedulearn.dashboard.views.table import Column
from schedulearn.wire import types
from schedulearn.wire.words import duration, nodes_of, number, share_done, size, why


class Shown(NamedTuple):
    """A job as a row shows it: with what it uses if it runs, and with its place in the queue if it waits."""

    job: types.Job
    now: datetime
    held: Sequence[types.Holder] = ()
    place: types.Explanation | None = None


def progress_of(job: types.Job) -> Safe:
    done, progress = share_done(job), job["progress"]
    if done is not None:
        return el("span", bar(done, "done"), el("span", percent(done), class_="num"), class_="progress")
    return el("span", f"step {progress['step']}" if progress else "", class_="note")


def metric_of(job: types.Job) -> Safe:
    progress = job["progress"]
    if not progress:
        return Safe("")
    value = number(progress["value"]) or "not a number"
    return join(el("b", value), el("small", f" {progress['metric']}") if progress["metric"] != "loss" else None)


def curve_of(job: types.Job) -> Child:
    progress = job["progress"]
    return spark(progress["spark"], job["id"]) if progress else ""


def ran_of(job: types.Job) -> str:
    return duration(round(job["run_seconds"])) if job["started_at"] else ""


def _of(title: str, cell: Callable[[types.Job], Child], kind: str = "", sort: str = "") -> Column:
    """A column of what is in the job itself."""
    return Column(title, lambda row: cell(row.job), kind, sort)


def _user(kind: str, sort: str = "") -> Column:
    return _of("User", lambda job: job["user"], kind, sort)


def _state(sort: str = "") -> Column:
    return _of("State", lambda job: pill(job["state"]), sort=sort)


def _priority(kind: str, sort: str = "") -> Column:
    return _of("Priority", lambda job: job["priority"], kind, sort)


def _progress(kind: str = "") -> Column:
    return _of("Progress", progress_of, kind)


def _metric(kind: str) -> Column:
    return _of("Metric", metric_of, kind)


def _ran(kind: str) -> Column:
    return _of("Ran", ran_of, kind)


def _running_job(job: types.Job) -> Child:
    return join(job_link(job["id"], job["name"]), None if job["state"] == "running" else pill(job["state"]))


def _starts_in(row: Shown) -> str:
    estimate = row.place["estimate"] if row.place else None
    start = estimate["start_seconds"] if estimate else None
    return "–" if start is None else duration(start)


def _clamped(words: str) -> Safe:
    return el("span", words, class_="clamp", title=words)


_JOB = _of("Job", lambda job: job_link(job["id"], job["name"]), "grow")
_CURVE = _of("Curve", curve_of, "w2")

JOBS = (
    _of("Job", lambda job: job_link(job["id"]), "key", "id"),
    _of(
        "Name",
        lambda job: el("a", job["name"], href=f"/jobs/{job['id']}", class_="name", title=job["name"]),
        "grow",
        "name",
    ),
    _user("w2", "user"),
    _state("state"),
    _priority("num w1", "priority"),
    _progress("w2"),
    _metric("num"),
    _CURVE,
    _of("Waited", lambda job: duration(round(job["wait_seconds"])), "num w1"),
    _ran("num"),
    Column("Submitted", lambda row: f"{since(row.job['submitted_at'], row.now)} ago", "num w2", "submitted_at"),
    _of("Why", why, "why w1"),
)
RUNNING = (
    _of("Job", _running_job, "grow"),
    _user("w1"),
    _progress(),
    _metric("num"),
    _CURVE,
    _of("Workers", lambda job: job["workers"] or "", "num w2"),
    Column("Cores", lambda row: core_words(row.held) if row.held else "", "num"),
    Column("Memory", lambda row: size(used_of(row.held, "memory")), "num w1"),
    _of("Where", nodes_of, "w1"),
    _ran("num w2"),
    _of("Left", lambda job: duration(job["progress"] and job["progress"]["eta_seconds"]), "num"),
)
QUEUE = (
    Column("#", lambda row: row.place["position"] or "", "key"),
    _JOB,
    _user("w1"),
    _priority("num w2"),
    Column("Waits", lambda row: since(row.job["queued_at"], row.now), "num w2"),
    Column("Starts in", _starts_in, "num"),
    Column("Why", lambda row: _clamped(row.place["text"]), "why"),
)
FINISHED = (
    _JOB,
    _user("w1"),
    _state(),
    _metric("num w2"),
    _CURVE,
    _ran("num"),
    Column("Ended", lambda row: f"{since(row.job['finished_at'], row.now)} ago", "num w2"),
    _of("Result", lambda job: _clamped(why(job)), "why w1"),
)
