"""Comparing policies: what is asked for, how far it is, and the report."""

from collections.abc import Callable
from functools import partial

from nicegui import ui

from schedulearn.client import ApiError, Client, ClientError, types
from schedulearn.dashboard.common.dialogs import tell
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, action, section
from schedulearn.dashboard.common.pick import Pick
from schedulearn.dashboard.views import studies as view
from schedulearn.dashboard.views.markup import Safe, el
from schedulearn.dashboard.views.parts import problem as problem_of
from schedulearn.wire.predictions import USUAL

MOST_TRACE = 800_000  # bytes; the service says so as well
_NOW, _HISTORY, _TRACE = "the jobs there are now", "this service's history", "a trace file"


class Compare:
    """The panel that asks, and, where `make_result` is called, what comes of it."""

    def __init__(self, frame: Frame, policy: types.Policy, use: Callable[[str], None] | None = None) -> None:
        """`use` switches to a policy; None: the user may not."""
        self._frame, self._use = frame, use
        self._study: types.Study | None = None
        with section("Compare", "compare"):
            Live(
                el(
                    "p",
                    "See when the jobs of this moment would end under several policies, or replay a workload.",
                    class_="empty",
                )
            )
            with ui.element("div").classes("asked"):
                self._choices = self._policies(policy)
                self._source = ui.radio([_NOW, _HISTORY, _TRACE], value=_NOW, on_change=self._sourced).props(
                    "inline dense"
                )
                self._pick = Pick("Trace file", MOST_TRACE, self._picked)
                self._told = Live()
                self._cluster = ui.input("Cluster", placeholder="this service's servers").props(
                    "outlined dense stack-label"
                )
                self._cluster.props('hint="or 16x4: nodes × GPUs; 2x8c: nodes × cores"')
                with ui.element("div").classes("buttons"):
                    self._go = ui.button("Compare", on_click=self._start).props("unelevated no-caps")
                    self._stop = ui.button("Cancel", on_click=self._cancel, color=None).props("outline no-caps")
                    self._progress = Live()
        self._sourced()

    def make_result(self) -> None:
        self._uses = ui.element("div").classes("actions uses")
        self._result = Live().classes("result")
        self._show(None)

    async def begin(self) -> None:
        """Go on with the newest of one's own, if there is one."""
        user = self._frame.session.user["name"]
        own = [one for one in await self._frame.session.ask(Client.studies) if one["user"] == user]
        self._show(own[0] if own else None)

    def _policies(self, policy: types.Policy) -> dict[str, ui.checkbox]:
        chosen = {policy["preset"], *USUAL}
        with ui.element("fieldset").classes("ticks"):
            Live(Safe("Policies"), tag="legend")
            return {
                name: ui.checkbox(name, value=name in chosen).props("dense") for name in policy["available"]["presets"]
            }

    def _sourced(self) -> None:
        self._pick.set_visibility(self._source.value == _TRACE)
        self._cluster.set_visibility(self._source.value != _NOW)
        self._told.show(Safe(""))

    def _picked(self) -> None:
        kb = f"{self._pick.file}, {max(1, self._pick.size // 1000):,} kB"
        if self._pick.too_large:
            self._told.show(problem_of(f"{kb}: too large, at most {MOST_TRACE // 1000} kB"))
        else:
            self._told.show(el("p", kb, class_="note"))

    async def _start(self) -> None:
        try:
            self._show(await self._ask())
        except ClientError as problem:
            self._told.show(problem_of(str(problem)))
        else:
            self._told.show(Safe(""))

    async def _ask(self) -> types.Study:
        policies = [name for name, box in self._choices.items() if box.value]
        cluster = str(self._cluster.value or "").strip().replace("×", "x")
        if not policies:
            raise ClientError("Select at least one policy.")
        if self._source.value == _NOW:
            return await self._frame.session.ask(lambda client: client.what_if(policies))
        if self._source.value == _HISTORY:
            return await self._frame.session.ask(lambda client: client.compare(policies, cluster=cluster))
        if self._pick.too_large or not self._pick.text:
            raise ClientError("Choose a trace first: a table with a known header, or JSON lines.")
        text, name = self._pick.text, self._pick.file
        return await self._frame.session.ask(lambda client: client.compare(policies, text, name, cluster))

    async def _cancel(self) -> None:
        if self._study:
            name = self._study["name"]
            await tell(lambda: self._frame.session.ask(lambda client: client.cancel_study(name)), "Cancelled.")
            await self._frame.attempt(self.look)

    async def look(self) -> None:
        """How far it is, if one runs."""
        study = self._study
        if study is None or study["state"] != "running":
            return
        name = study["name"]
        try:
            found = await self._frame.session.ask(lambda client: client.study(name))
        except ApiError as problem:
            if problem.status != 404:
                raise
            self._show(None)  # it was deleted
        else:
            if self._study is study:
                self._show(found)

    def _show(self, study: types.Study | None) -> None:
        self._study = study
        running = study is not None and study["state"] == "running"
        self._go.set_enabled(not running)
        self._stop.set_visibility(running)
        self._progress.show(view.progress(study) if study and running else Safe(""))
        self._result.show(view.result(study) if study and not running else Safe(""))
        self._offer(study["prediction"] if study and not running else None)

    def _offer(self, told: types.Prediction | None) -> None:
        """To switch to one of the policies whose predictions are shown."""
        self._uses.clear()
        if told and self._use:
            with self._uses:
                for name in told["policies"][1:]:
                    action(f"Switch to {name}", partial(self._use, name))
