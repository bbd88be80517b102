"""The pages, each in a file with its address."""

from collections.abc import Awaitable, Callable

from fastapi import Request
from nicegui import ui

from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.unseen import counted
from schedulearn.dashboard.pages import job, jobs, overview, policies, results, submit, timeline

_PATIENCE = 120.0  # seconds


def register() -> None:
    """Tell NiceGUI which pages there are."""
    pages: dict[str, Callable[..., Awaitable[None]]] = {
        "/": overview.overview,
        "/jobs": jobs.jobs,
        "/jobs/{number}": job.job,
        "/timeline": timeline.timeline,
        "/submit": submit.submit,
        "/policies": policies.policies,
        "/results": results.results,
        "/results/{name}": results.result,
    }
    for address, page in pages.items():
        # A service that answers slowly delays it; the library would rather show an error.
        ui.page(address, response_timeout=_PATIENCE)(counted(page))


async def nowhere(request: Request) -> None:
    """Any other address."""
    frame = Frame(request, "Nothing here", "")
    with ui.element("div").classes("page"):
        frame.missing("Nothing here", "There is no such page.", "To the overview", "/")
