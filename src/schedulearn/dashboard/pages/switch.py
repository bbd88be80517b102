"""Another policy, with its stages and parameters: a question in front of the page."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from schedulearn.dashboard.common.dialogs import Dialog
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live
from schedulearn.dashboard.views.markup import el
from schedulearn.dashboard.views.policies import STAGES, parameters_of
from schedulearn.wire import types


def switch(frame: Frame, policy: types.Policy, preset: str, again: Callable[[], Awaitable[object]]) -> None:
    """Ask how, then set it; running jobs go on."""
    asked = Dialog(f"Use {preset}")
    with asked.content:
        form = _Form(policy, preset)

    async def act() -> None:
        stages, params = form.stages, form.params
        await frame.session.ask(lambda client: client.set_policy(preset, stages, params))
        await again()

    asked.offer("Use it", act, f"The policy is now {preset}.")


class _Form:
    """The five stages, and below them the parameters of those that are chosen."""

    def __init__(self, policy: types.Policy, preset: str) -> None:
        self._policy = policy
        self._usual: dict[str, str] = policy["available"]["details"][preset]["stages"]
        self._params: dict[str, ui.input] = {}
        Live(el("p", "It takes effect at once, without a restart; running jobs keep running.", class_="note"))
        with ui.element("div").classes("fields"):
            self._stages = {kind: self._choice(kind) for kind in self._usual}
        self._place = ui.element("div").classes("fields")
        self._draw()

    @property
    def stages(self) -> dict[str, str]:
        """Those that differ from the preset's own."""
        chosen = {kind: str(choice.value) for kind, choice in self._stages.items()}
        return {kind: name for kind, name in chosen.items() if name != self._usual[kind]}

    @property
    def params(self) -> dict[str, Any]:
        given = {name: str(field.value or "").strip() for name, field in self._params.items()}
        return {name: _value(text) for name, text in given.items() if text}

    def _choice(self, kind: str) -> ui.select:
        options = list(self._policy["available"]["stages"][kind])
        label = f"{kind}: {STAGES.get(kind, '')}"
        return ui.select(options, label=label, value=self._usual[kind], on_change=self._draw).props("outlined dense")

    def _draw(self) -> None:
        chosen = {kind: str(choice.value) for kind, choice in self._stages.items()}
        now = self._policy["params"]
        kept = {name: str(field.value or "") for name, field in self._params.items()}
        self._place.clear()
        with self._place:
            self._params = {
                name: ui.input(name, value=kept.get(name, ""), placeholder=usual or "…").props(
                    "outlined dense stack-label"
                )
                for name, usual in parameters_of(self._policy, chosen).items()
            }
        if chosen == self._policy["stages"] and not kept:  # what is in force is what may be changed
            for name, field in self._params.items():
                field.value = "" if name not in now else _text(now[name])


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else ",".join(map(str, value)) if isinstance(value, list) else json.dumps(value)
    )


def _value(text: str) -> Any:
    """A number if it is one; else what was written, and the service says what is wrong with it."""
    try:
        return json.loads(text)
    except ValueError:
        return text
