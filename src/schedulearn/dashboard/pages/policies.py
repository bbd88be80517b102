"""`/policies`: what each policy does, the one in force, and how others would have done."""

from collections.abc import Callable

from fastapi import Request
from nicegui import ui

from schedulearn.client import Client, types
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live, action, columns, section
from schedulearn.dashboard.pages.compare import Compare
from schedulearn.dashboard.pages.switch import switch
from schedulearn.dashboard.views import policies as view


async def policies(request: Request) -> None:
    frame = Frame(request, "Policies", "/policies")
    page = ui.element("div").classes("page")
    policy = await frame.first(Client.policy)
    if policy is None:
        return
    with page:
        shown = PoliciesPage(frame, policy)
    await frame.attempt(shown.compare.begin)


class PoliciesPage:
    """The page while somebody has it open."""

    def __init__(self, frame: Frame, policy: types.Policy) -> None:
        self._frame, self._policy = frame, policy
        self._cards: dict[str, Live] = {}
        may_switch = frame.session.user["role"] == "admin"
        with columns() as (main, side):
            with main:
                self.compare = Compare(frame, policy, self._use if may_switch else None)
            with side:
                self._in_force = Live()
        self.compare.make_result()
        with section("Policies"), ui.element("div").classes("cards"):
            for name in policy["available"]["presets"]:
                self._card(name, self._use if may_switch else None)
        self._draw(policy)
        frame.keep(self._follow)

    def _use(self, name: str) -> None:
        switch(self._frame, self._policy, name, self._look)

    def _card(self, name: str, use: Callable[[str], None] | None) -> None:
        with ui.element("article").classes("preset").props(f'aria-label="{name}"'):
            self._cards[name] = Live()
            if use:
                action("Use", lambda: use(name)).props(f'aria-label="Use {name}"')

    async def _follow(self) -> None:
        await self._look()
        await self.compare.look()

    async def _look(self) -> None:
        self._draw(await self._frame.session.ask(Client.policy))

    def _draw(self, policy: types.Policy) -> None:
        self._policy = policy
        self._in_force.show(view.in_force(policy))
        for name, card in self._cards.items():
            card.show(view.card(policy, name))
