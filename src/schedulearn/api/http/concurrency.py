"""How much one user may have under way at the same time, so that the others are answered, too."""

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.service.common.auth import Caller

SLOT = "schedulearn.slot"  # in a request's scope


class TooMany(SchedulearnError):
    """The caller has as much under way as one user may have."""


class ConcurrencyLimits:
    """Counts requests by user. Those of a user's jobs are counted apart: they must not shut the user out."""

    def __init__(self, app: ASGIApp, requests: int, streams: int) -> None:
        """So many at the same time; streams (events, output, commands, files) are requests, too."""
        self._app = app
        self.most_requests, self.most_streams = requests, streams
        self.requests: Counter[tuple[str, bool]] = Counter()
        self.streams: Counter[tuple[str, bool]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        slot = scope[SLOT] = Slot(self)
        try:
            await self._app(scope, receive, send)
        finally:
            slot.end()


class Slot:
    """One request."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._limits = limits
        self._user: tuple[str, bool] | None = None
        self._streams = 0

    def take(self, caller: Caller) -> None:
        """The caller is known. TooMany if it asks for too much at once."""
        if self._user is not None:
            return
        user = (caller.name, caller.attempt is not None)
        most = self._limits.most_requests
        if self._limits.requests[user] >= most:
            raise TooMany(f"{caller.name} has {most} requests under way: wait for one of them to end")
        self._user = user
        self._limits.requests[user] += 1

    def stream(self) -> None:
        """The answer will take long. TooMany if others of the same user do already."""
        assert self._user, "streams are for people with a token"
        most = self._limits.most_streams
        if self._limits.streams[self._user] >= most:
            raise TooMany(f"{self._user[0]} follows {most} streams already: end one of them")
        self._streams += 1
        self._limits.streams[self._user] += 1

    def end(self) -> None:
        if self._user is None:
            return
        for counted, by in ((self._limits.requests, 1), (self._limits.streams, self._streams)):
            counted[self._user] -= by
            if counted[self._user] <= 0:
                del counted[self._user]
