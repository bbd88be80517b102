"""The site: NiceGUI's application with our pages, log-in and guard around it."""

from contextlib import AsyncExitStack
from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.dashboard.access.guard import Guard
from schedulearn.dashboard.access.login import away_page, login_routes
from schedulearn.dashboard.access.logins import LogIns
from schedulearn.dashboard.access.session import Sessions
from schedulearn.dashboard.common.unseen import counted
from schedulearn.dashboard.pages import nowhere, register
from schedulearn.dashboard.reports import report_routes

_STATIC = Path(__file__).parent / "static"


class Site:
    """All pages, for the service at one address. NiceGUI knows one site for each process."""

    def __init__(self, url: str, kept: Path | None = None, key: str = "") -> None:
        sessions, logins = Sessions(url, key), LogIns(kept)
        self._inner = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        self._inner.include_router(login_routes(sessions, logins))
        self._inner.include_router(report_routes())
        self._inner.mount("/static", StaticFiles(directory=_STATIC))
        register()
        ui.run_with(
            self._inner,
            root=counted(nowhere),
            title="Schedulearn",
            favicon=_STATIC / "icon.svg",
            language="en-GB",
            tailwind=False,
            binding_refresh_interval=None,
            message_history_length=0,  # after a break a page is loaded anew: nothing has to be kept for that
            gzip_middleware_factory=None,
            show_welcome_message=False,
        )
        nicegui_app.config.socket_io_js_transports = ["websocket", "polling"]
        self._app: ASGIApp = GZipMiddleware(Guard(self._inner, sessions, logins, away_page), minimum_size=1000)
        self._life = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def start(self) -> None:
        await self._life.enter_async_context(self._inner.router.lifespan_context(self._inner))

    async def stop(self) -> None:
        await self._life.aclose()
