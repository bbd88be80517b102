"""`/`: the cluster as it is now."""

from fastapi import Request
from nicegui import ui

from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live
from schedulearn.dashboard.views import overview as view
from schedulearn.dashboard.views.servers import servers as map_of_servers
from schedulearn.wire import types


async def overview(request: Request) -> None:
    frame = Frame(request, "Overview", "/")
    with ui.element("div").classes("page"):
        trouble, totals = Live(), Live()
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("main"):
                running, queue, finished = Live(), Live(), Live()
            with ui.element("div").classes("side"):
                servers = Live()

    def draw(seen: types.Overview) -> None:
        trouble.show(view.trouble(seen))
        totals.show(view.totals(seen))
        servers.show(map_of_servers(seen))
        running.show(view.running(seen))
        queue.show(view.queue(seen))
        finished.show(view.finished(seen))

    async def look() -> None:
        draw(await frame.session.overview())

    await frame.attempt(look)  # the page arrives complete
    frame.keep(look)
