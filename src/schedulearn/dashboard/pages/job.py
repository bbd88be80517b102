"""`/jobs/N`: one job, and what may be done with it."""

import re

from fastapi import Request
from nicegui import ui

from schedulearn.client import FINISHED, NoSuchJob, types
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, Output, columns, heading, redraw, section
from schedulearn.dashboard.common.watch import JobWatch, OutputReader
from schedulearn.dashboard.pages.actions import Actions
from schedulearn.dashboard.views import charts
from schedulearn.dashboard.views import job as view
from schedulearn.dashboard.views.markup import el

_NUMBER = re.compile(r"0*[1-9][0-9]{0,14}")  # that a job may have


async def job(request: Request, number: str) -> None:
    frame = Frame(request, f"Job {number}", "/jobs")
    page = ui.element("div").classes("page")
    found = JobWatch(int(number)) if _NUMBER.fullmatch(number) else None
    try:
        if found is None:
            raise NoSuchJob(404, "", f"there is no job {number}")
        if await frame.first(found.look) is None:
            return
    except NoSuchJob as problem:
        with page:
            frame.missing("No such job", f"{problem}.", "List all jobs", "/jobs")
        return
    with page:
        JobPage(frame, found)


class JobPage:
    def __init__(self, frame: Frame, watch: JobWatch) -> None:
        assert watch.job
        self._frame, self._watch = frame, watch
        self._output, self._worker = OutputReader(watch.id), 0
        self._drawn = 0
        with ui.element("div").classes("headline"):
            self._head = Live().classes("title")
            self._actions = Actions(frame, watch.job, self._look)
        self._standing = Live()
        with columns() as (main, side):
            with main:
                self._curves()
                self._console()
            with side:
                self._story, self._about, self._attempts, self._spec = Live(), Live(), Live(), Live()
        self._draw(watch.job)
        frame.keep(self._follow)

    def _curves(self) -> None:
        with ui.element("section").classes("panel") as self._learning:
            heading("Metrics")
            self._curve = ui.echart({}, renderer="svg").classes("curve").props('aria-label="Metrics"')
        with section("Over time"):
            self._no_use = Live(el("p", "Nothing has been measured yet.", class_="empty"))
            self._strips = ui.echart({}, renderer="svg").classes("strips").props('aria-label="Over time"')

    def _console(self) -> None:
        with ui.element("section").classes("panel"):
            with ui.element("div").classes("head"):
                heading("Output")
                self._choice = ui.select({0: "worker 0"}, value=0, on_change=self._other).props("dense outlined")
                self._choice.props('aria-label="Worker"')
            self._text = Output()

    async def _follow(self) -> None:
        await self._look()
        await self._read()

    async def _look(self) -> None:
        try:
            self._draw(await self._frame.session.ask(self._watch.look))
        except NoSuchJob:
            ui.navigate.to("/jobs")

    async def _read(self) -> None:
        newest = self._watch.job["attempt"] if self._watch.job else 0
        reader = self._output
        try:
            text = await self._frame.session.ask(lambda client: reader.read(client, newest))
        except NoSuchJob:
            return
        if reader is self._output:
            self._text.add(text)

    async def _other(self) -> None:
        """The output of another worker."""
        self._output = OutputReader(self._watch.id, int(self._choice.value))
        self._text.clear_text()
        await self._frame.attempt(self._read)

    def _draw(self, job: types.Job) -> None:
        watch, now = self._watch, view.now_utc()
        self._head.show(view.title(job))
        self._standing.show(view.standing(job, watch.explained))
        self._actions.show(job)
        self._story.show(view.story(watch.events))
        self._about.show(view.about(job, now))
        self._attempts.show(view.attempts(watch.attempts, now))
        self._spec.show(view.spec(job))
        if watch.curves != self._drawn:
            self._drawn = watch.curves
            self._draw_curves(job)

    def _draw_curves(self, job: types.Job) -> None:
        watch = self._watch
        self._learning.set_visibility(bool(watch.series))
        redraw(self._curve, charts.learning(watch.series))
        metric = str((job["spec"].get("metric") or {}).get("name") or "loss")
        option = charts.over_time(watch.used, watch.attempts, watch.events, watch.series, metric, _now_if_running(job))
        measured = bool(option["series"])
        self._no_use.set_visibility(not measured)
        self._strips.set_visibility(measured)
        self._strips.style(f"height:{charts.height(option)}px")
        redraw(self._strips, option)
        ranks = {int(w["worker"].rpartition(".")[2]) for a in watch.attempts[-1:] for w in a["workers"]} or {0}
        options = {rank: f"worker {rank}" for rank in sorted(ranks)}
        if options != self._choice.options:
            self._choice.set_options(options, value=self._choice.value if self._choice.value in options else min(ranks))
        self._choice.set_visibility(len(options) > 1)


def _now_if_running(job: types.Job) -> float | None:
    return None if job["state"] in FINISHED else round(view.now_utc().timestamp() * 1000)
