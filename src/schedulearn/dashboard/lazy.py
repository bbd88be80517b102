"""The page is loaded when it is first asked for: without a visit it costs nothing."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class Loaded(Protocol):
    """What is loaded: an ASGI application with a beginning and an end."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class LazyPage:
    """An ASGI application that loads another one at the first request, and ends it with the server."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._page: Loaded | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        async with self._lock:
            if self._page is None:
                page = await asyncio.to_thread(self._load)  # half a second; jobs go on reporting meanwhile
                await page.start()
                self._page = page
        await self._page(scope, receive, send)

    async def _live(self, receive: "Receive", send: "Send") -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        if self._page:
            await self._page.stop()
        await send({"type": "lifespan.shutdown.complete"})
