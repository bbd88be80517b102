"""Any other address: there is nothing."""

from fastapi import Request
from nicegui import ui

from schedulearn.dashboard.common.frame import Frame


async def nowhere(request: Request) -> None:
    frame = Frame(request, "Nothing here", "")
    with ui.element("div").classes("page"):
        frame.missing("Nothing here", "There is no such page.", "To the overview", "/")
