"""`/results`: reports of comparisons and experiments; `/results/NAME`: one of them."""

from datetime import UTC, datetime

from fastapi import Request
from nicegui import ui

from schedulearn.client import ApiError, Client, types
from schedulearn.dashboard.common import dialogs
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, action
from schedulearn.dashboard.views import studies as view
from schedulearn.dashboard.views.parts import panel

_EVERY = 2.0  # seconds


async def results(request: Request) -> None:
    frame = Frame(request, "Results", "/results")
    with ui.element("div").classes("page"):
        shown = Live()

    async def look() -> None:
        studies = await frame.session.ask(Client.studies)
        shown.show(panel("Results", view.listed(studies, datetime.now(UTC)), note=len(studies)))

    await frame.attempt(look)
    frame.keep(look, _EVERY)


async def result(request: Request, name: str) -> None:
    frame = Frame(request, name, "/results")
    found = await frame.first(lambda client: _named(client, name))
    if found is None:
        return
    with ui.element("div").classes("page"):
        if found:
            ResultPage(frame, found[0])
        else:
            frame.missing("No such report", f"There is no report {name}.", "List all reports", "/results")


def _named(client: Client, name: str) -> list[types.Study]:
    """The one of this name, if there is one."""
    try:
        return [client.study(name)]
    except ApiError as problem:
        if problem.status not in (404, 422):
            raise
        return []


class ResultPage:
    def __init__(self, frame: Frame, study: types.Study) -> None:
        self._frame, self._study = frame, study
        self._stop: ui.button | None = None
        with ui.element("div").classes("headline"):
            self._head = Live().classes("title")
            if study["yours"]:
                with ui.element("div").classes("actions"):
                    self._stop = action("Cancel", self._cancel)
                    action("Delete", self._delete, "destroys")
        self._trouble, self._report = Live(), Live()
        self._draw(study)
        frame.keep(self._look)

    async def _look(self) -> None:
        name = self._study["name"]
        try:
            self._draw(await self._frame.session.ask(lambda client: client.study(name)))
        except ApiError as problem:
            if problem.status != 404:
                raise
            ui.navigate.to("/results")  # it was deleted

    def _draw(self, study: types.Study) -> None:
        self._study = study
        self._head.show(view.headline(study))
        self._trouble.show(view.trouble(study))
        self._report.show(view.whole(study))
        if self._stop:
            self._stop.set_visibility(study["state"] == "running")

    async def _cancel(self) -> None:
        name = self._study["name"]
        await dialogs.tell(lambda: self._frame.session.ask(lambda client: client.cancel_study(name)), "Cancelled.")
        await self._frame.attempt(self._look)

    def _delete(self) -> None:
        name = self._study["name"]

        async def act() -> None:
            await self._frame.session.ask(lambda client: client.delete_study(name))
            ui.navigate.to("/results")

        dialogs.confirm(f"Delete {name}?", "Its report and files are deleted for good.", "Delete it", act, "Deleted.")
