"""Bounds on what a client may send (how much, and how slowly), and on what it may have written into the log."""

import logging
import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.http.problems import http_problem, problem
from schedulearn.asgi import bounded
from schedulearn.core.domain.units import format_size
from schedulearn.service.common.auth import NotAuthenticated

MAX_BODY = 1_000_000  # bytes of any body but a snapshot
_WITHOUT_TOKEN = 4096  # bytes of what is taken without a token: a code to log in with

_NEEDS_TOKEN = "a body of this size is taken only with a valid token: Authorization: Bearer TOKEN"


class BodyLimits:
    """Refuses bodies that are too large (413), that do not arrive (408), and large ones without a token (401)."""

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
        if _announced(scope) > _WITHOUT_TOKEN and not await self._is_known(scope):
            # Bodies are read before routes look at tokens: else we could be made to hold thousands of them.
            await problem(401, "not-authenticated", "A token is needed", _NEEDS_TOKEN)(scope, receive, send)
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
    """As many bytes as will come; a client that does not say is treated as if they were many."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:18])
        if name == b"transfer-encoding":
            return _WITHOUT_TOKEN + 1
    return 0


def _too_large(limit: int) -> str:
    return f"the body is too large; at most {format_size(limit)} are taken"


class LogLimit(logging.Filter):
    """Lets so many lines through in each window; the next one says how many were left out."""

    def __init__(self, most: int = 20, window: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._window, self._now = most, window, now
        self._began = now()
        self._written = self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if self._now() - self._began >= self._window:
            if self._left_out:
                record.msg = f"{record.msg} (and {self._left_out} lines that were left out)"
            self._began, self._written, self._left_out = self._now(), 0, 0
        if self._written >= self._most:
            self._left_out += 1
            return False
        self._written += 1
        return True


_log_limit = LogLimit()


def limit_log() -> None:
    """What uvicorn says of requests that are none, and of connections that broke."""
    logging.getLogger("uvicorn.error").addFilter(_log_limit)
