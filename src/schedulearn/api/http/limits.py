"""Bounds on what a client may send: how much, and how slowly."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.http.problems import http_problem, problem
from schedulearn.asgi import bounded
from schedulearn.core.domain.units import format_size
from schedulearn.service.common.auth import NotAuthenticated

MAX_BODY = 1_000_000  # bytes of any body but a snapshot
_FOR_ANYBODY = 4096  # bytes of what is taken from somebody without a token: a code to log in with


_STRANGER = "a body of this size is taken from somebody with a valid token: Authorization: Bearer TOKEN"


class BodyLimits:
    """Refuses bodies that are too large (413), that do not arrive (408), and large ones of nobody we know (401)."""

    def __init__(
        self,
        app: ASGIApp,
        snapshot_limit: Callable[[], int],
        authenticate: Callable[[str], object],
        idle: float = 30.0,
        total: float = 60.0,
    ) -> None:
        """A body may pause for `idle` seconds, and take `total` in all (a snapshot an hour)."""
        self._app, self._snapshot_limit, self._authenticate = app, snapshot_limit, authenticate
        self._idle, self._total = idle, total

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_snapshot = scope["method"] == "PUT" and "/snapshots/" in scope["path"]
        limit = self._snapshot_limit() if is_snapshot else MAX_BODY
        if _announced(scope) > limit:
            await http_problem(413, _too_large(limit))(scope, receive, send)
            return
        if _announced(scope) > _FOR_ANYBODY and not await self._is_known(scope):
            # Bodies are read before routes look at tokens: without this anybody could have us hold thousands of them.
            await problem(401, "not-authenticated", "A token is needed", _STRANGER)(scope, receive, send)
            return
        seconds = 3600.0 if is_snapshot else self._total
        await self._app(scope, bounded(receive, limit, _too_large(limit), seconds, self._idle), send)

    async def _is_known(self, scope: Scope) -> bool:
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            await run_in_threadpool(self._authenticate, token.strip())
        except NotAuthenticated:
            return False
        return kind.lower() == "bearer"


def _announced(scope: Scope) -> int:
    """As many bytes as will come; who does not say it is asked who it is as if they were many."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:18])
        if name == b"transfer-encoding":
            return _FOR_ANYBODY + 1
    return 0


def _too_large(limit: int) -> str:
    return f"the body is too large; at most {format_size(limit)} are taken"
