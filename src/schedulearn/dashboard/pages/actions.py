"""What may be done with a job, as buttons. What a person may not do is not offered; the service checks all the same."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from schedulearn.client import FINISHED, Client, ClientError, types
from schedulearn.dashboard.common import dialogs
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import action
from schedulearn.dashboard.views import job as view


class Actions:
    """The row of buttons of one job. Which are shown depends on its state."""

    def __init__(self, frame: Frame, job: types.Job, again: Callable[[], Awaitable[object]]) -> None:
        self._frame, self._job, self._again = frame, job, again
        self._buttons: list[tuple[ui.button, Callable[[types.Job], bool]]] = []
        with ui.element("div").classes("actions"):
            if job["yours"]:
                # Those that come and go are at the left of a row that ends at the right: no other moves under a hand.
                self._add("Move", self._move, lambda job: job["state"] == "running")
                self._add("Pause", self._pause, lambda job: job["state"] in ("queued", "running"))
                self._add("Resume", self._resume, lambda job: job["state"] == "paused")
                self._add("Priority", self._priority, _unfinished)
                self._add("Workers", self._workers, _unfinished)
                self._add("CPU limit", self._cpus, _unfinished)
            self._add("Copy and edit", self._copy, lambda _: True)
            if job["yours"]:
                self._add("Cancel", self._cancel, _unfinished, "destroys")
                self._add("Delete", self._delete, lambda _: True, "destroys")
        self.show(job)

    def show(self, job: types.Job) -> None:
        self._job = job
        for button, fits in self._buttons:
            if button.visible != fits(job):
                button.set_visibility(fits(job))

    def _add(self, words: str, act: Callable[[], Any], fits: Callable[[types.Job], bool], kind: str = "") -> None:
        self._buttons.append((action(words, act, kind), fits))

    async def _do(self, call: Callable[[Client], object]) -> None:
        await self._frame.session.ask(call)
        await self._again()

    async def _update(self, **changes: Any) -> None:
        await self._do(lambda client: client.update(self._job["id"], **changes))

    # --- what the buttons do

    async def _pause(self) -> None:
        await dialogs.tell(lambda: self._do(lambda client: client.pause(self._job["id"])), "The job is being paused.")

    async def _resume(self) -> None:
        await dialogs.tell(lambda: self._do(lambda client: client.resume(self._job["id"])), "The job is being resumed.")

    def _cancel(self) -> None:
        job = self._job["id"]
        words = "The job is told to save and stop. Its history and files are kept."
        act = lambda: self._do(lambda client: client.cancel(job))  # noqa: E731
        dialogs.confirm(f"Cancel job {job}?", words, "Cancel it", act, "The job is being cancelled.")

    def _delete(self) -> None:
        job = self._job["id"]
        words = "The job is stopped at once if it is running. Its output, files and metrics are deleted for good."

        async def act() -> None:
            await self._frame.session.ask(lambda client: client.delete(job))
            ui.navigate.to("/jobs")

        dialogs.confirm(f"Delete job {job}?", words, "Delete it", act, "The job is being deleted.")

    def _priority(self) -> None:
        act = lambda text: self._update(priority=_number(text))  # noqa: E731
        now = str(self._job["priority"])
        dialogs.ask("Priority", now, "0..100, higher first", act, "The priority is set.")

    def _workers(self) -> None:
        given = self._job["spec"].get("workers") or 1
        now = f"{given.get('min', 1)}..{given.get('max', 1)}" if isinstance(given, dict) else str(given)
        act = lambda text: self._update(workers=text)  # noqa: E731
        dialogs.ask("Workers", now, "a number, or a range such as 2..6", act, "The range is set.")

    def _cpus(self) -> None:
        limit = self._job["cpus_limit"]
        act = lambda text: self._update(cpus_limit=_number(text) if text.strip() else None)  # noqa: E731
        hint = "cores for each worker, such as 1.5; empty takes the limit away"
        dialogs.ask("CPU limit", "" if limit is None else f"{limit:g}", hint, act, "The limit is set.")

    async def _move(self) -> None:
        job = self._job["id"]
        try:
            found = await self._frame.session.ask(lambda client: client.possible_moves(job))
        except ClientError as problem:
            ui.notify(str(problem), type="negative")
            return
        able = [one["node"] for one in found if one["problem"] is None]
        act = lambda node: self._do(lambda client: client.migrate(job, node))  # noqa: E731
        done = "The job saves, stops, and continues there."
        dialogs.choose(f"Move job {job}", "To", able, act, "Move it", done, view.not_there(found))

    def _copy(self) -> None:
        ui.navigate.to(f"/submit?copy={self._job['id']}")


def _unfinished(job: types.Job) -> bool:
    return job["state"] not in FINISHED


def _number(text: str) -> Any:
    """A number if it is one; else what was written, so that the service says what is wrong with it."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
