"""Any other address: there is nothing."""

from fastapi import Request
from nicegui import ui

from schedulearn.dashboard.frame import Frame
from schedulearn.dashboard.live import Live
from schedulearn.dashboard.markup import el
from schedulearn.dashboard.views.parts import panel


async def nowhere(request: Request) -> None:
    Frame(request, "Nothing here", "")
    ui.context.client.status_code = 404
    with ui.element("div").classes("page"):
        words = el("p", "There is no such page. ", el("a", "To the overview", href="/"), class_="empty")
        Live(panel("Nothing here", words))
