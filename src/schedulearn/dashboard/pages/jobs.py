"""`/jobs`: all jobs, a page of them at a time as the service gives it."""

from datetime import UTC, datetime

from fastapi import Request
from nicegui import ui
from nicegui.events import GenericEventArguments

from schedulearn.client import Client, types
from schedulearn.dashboard.common.frame import Frame
from schedulearn.dashboard.common.live import Live
from schedulearn.dashboard.views.jobs import SIZE, Wanted, filters, jobs_table
from schedulearn.dashboard.views.markup import join
from schedulearn.dashboard.views.parts import panel

_EVERY = 2.0  # seconds


async def jobs(request: Request) -> None:
    frame = Frame(request, "Jobs", "/jobs")
    wanted = Wanted.parse(request.url.query)
    with ui.element("div").classes("page"):
        shown = Live()

    async def look() -> None:
        asked = wanted
        page = await frame.session.ask(lambda client: _page(client, asked))
        if asked == wanted:  # or the reader has gone on while this page was on its way
            body = jobs_table(page, asked, datetime.now(UTC))
            shown.show(panel("Jobs", join(filters(asked), body), note=f"{page['total']:,}"))

    async def go(event: GenericEventArguments) -> None:
        nonlocal wanted
        wanted = Wanted.parse(str(event.args))
        await frame.attempt(look)

    shown.on("go", go)
    await frame.attempt(look)
    frame.keep(look, _EVERY)


def _page(client: Client, wanted: Wanted) -> types.JobPage:
    return client.jobs(
        state=[wanted.state] if wanted.state else [],
        user=wanted.user or None,
        search=wanted.search or None,
        sort=wanted.sort,
        order=wanted.order,
        limit=SIZE,
        offset=wanted.offset,
    )
