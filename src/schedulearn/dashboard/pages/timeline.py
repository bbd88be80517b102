"""`/timeline`: jobs over servers, now and back in time."""

import time
from typing import Any

from fastapi import Request
from nicegui import ui
from nicegui.events import EChartPointClickEventArguments, GenericEventArguments

from schedulearn.client import Client, types
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, heading, redraw
from schedulearn.dashboard.views import timeline as view
from schedulearn.dashboard.views.markup import join
from schedulearn.dashboard.views.parts import panel

_STEPS = 600  # a live window moves on whenever it would move by one part of so many


async def timeline(request: Request) -> None:
    frame = Frame(request, "Timeline", "/timeline")
    ui.add_head_html('<script src="/static/timeline.js"></script>')
    with ui.element("div").classes("page"):
        page = TimelinePage(frame, view.Window.parse(request.url.query))
    await frame.attempt(page.look)
    frame.keep(page.look)


class TimelinePage:
    def __init__(self, frame: Frame, window: view.Window) -> None:
        self._frame, self._window = frame, window
        self._lanes: dict[view.Key, int] = {}
        self._event, self._looked_at = -1, 0.0  # what was shown last, and when
        self._anew = True  # the window is another one than before
        with ui.element("section").classes("panel"):
            with ui.element("div").classes("head"):
                heading("Timeline")
                self._tools = Live()
            self._chart = ui.echart({}, on_point_click=_open, renderer="svg").classes("strips")
            self._chart.props('role="img" aria-label="Jobs over servers; the table below has the same in words"')
        self._rows = Live()
        self._tools.on("go", self._go)

    async def look(self) -> None:
        """Now and then, and whenever something has happened; a time that is over is looked at once."""
        overview, window = await self._frame.session.overview(), self._window
        age, happened = time.monotonic() - self._looked_at, overview["last_event"] != self._event
        if not self._anew and (window.until is not None or (age < window.span / _STEPS and not happened)):
            return
        found = await self._frame.session.ask(lambda client: _ask(client, window, overview["at"]))
        if window == self._window:  # or the reader has gone on meanwhile
            self._event, self._looked_at = overview["last_event"], time.monotonic()
            self._draw(found, [node["name"] for node in overview["nodes"]])

    async def _go(self, event: GenericEventArguments) -> None:
        self._window, self._anew = view.Window.parse(str(event.args)), True
        await self._frame.attempt(self.look)

    def _draw(self, found: types.Timeline, nodes: list[str]) -> None:
        at = view.seconds(found["at"])
        self._window = window = self._window.fitted(at, view.seconds(found["first_at"]))
        drawn = view.bars(found["spans"])
        self._lanes = view.lanes(drawn, {} if self._anew else self._lanes)
        shown = [*nodes, *sorted({bar.key[2] for bar in drawn} - set(nodes))]  # servers that are gone come last
        option = view.chart(drawn, self._lanes, shown, window, at, self._anew)
        self._anew = False
        self._tools.show(view.tools(window, at))
        self._chart.style(f"height:{view.height(option)}px")
        redraw(self._chart, option)
        self._rows.show(panel("In this time", join(view.rows(drawn, at)), note=_note(found, len(drawn))))


def _ask(client: Client, window: view.Window, now: str) -> types.Timeline:
    """A live window ends when the service looks; without a length it is the longest that may be chosen for it."""
    until = view.seconds(now) if window.until is None else window.until
    since = view.iso(until - (window.span or view.USUAL))
    return client.timeline(since, None if window.until is None else view.iso(window.until))


def _note(found: types.Timeline, drawn: int) -> str:
    if found["total"] > len(found["spans"]):
        return f"the newest {len(found['spans']):,} of {found['total']:,} workers"
    return f"the newest {view.MOST_ROWS} of {drawn:,}" if drawn > view.MOST_ROWS else str(drawn or "")


def _open(event: EChartPointClickEventArguments) -> None:
    data: Any = event.data
    ui.navigate.to(f"/jobs/{int(data['job'])}")
