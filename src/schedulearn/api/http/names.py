"""By which names the service may be called, where it listens for its own machine alone.

A site elsewhere can have its name point to 127.0.0.1, and its pages then talk to whatever listens there as if it were
the site itself. Such a request says that name, and gets no answer.
"""

import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.asgi import is_loopback
from schedulearn.service.common.config import Options


class KnownNames:
    """Answers what is asked under a name of this machine, and refuses the rest (421)."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._knows(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            words = "the service does not go by this name; one that a proxy passes on is given with `up --url`\n"
            await PlainTextResponse(words, 421)(scope, receive, send)

    def _knows(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def guarded_names(app: ASGIApp, options: Options) -> ASGIApp:
    """Beyond loopback it may have any name: there every machine reaches it anyway."""
    if not options.on_loopback:
        return app
    given = urlsplit(options.url).hostname or ""
    return KnownNames(app, frozenset({options.host.lower(), socket.gethostname().lower(), given} - {""}))
