"""The pages, each in a file with its address."""

from fastapi import Request
from nicegui import ui

from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.pages import job, jobs, overview, policies, results, submit, timeline

__all__ = ["nowhere", "register"]


def register() -> None:
    """Tell NiceGUI which pages there are."""
    for page in (overview, jobs, job, timeline, submit, policies, results):
        page.register()


async def nowhere(request: Request) -> None:
    """Any other address."""
    frame = Frame(request, "Nothing here", "")
    with ui.element("div").classes("page"):
        frame.missing("Nothing here", "There is no such page.", "To the overview", "/")
