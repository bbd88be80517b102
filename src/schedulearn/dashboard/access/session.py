"""Users that are logged in, and their calls to the service."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from schedulearn.asgi import PAGE
from schedulearn.client import ApiError, Client, ServiceUnreachable, types

T = TypeVar("T")
KEY = "schedulearn.session"  # where the guard leaves it in a request's scope
_FRESH = 0.8  # seconds for which one overview is good for all pages of a person
_TRUST = 10.0  # seconds after which a token is looked at again
_TIMEOUT = 15.0
_MOST = 1000  # people who are remembered
_MOST_IDLE = 4  # kept connections of one person


class Source(NamedTuple):
    """Where a browser asks from."""

    address: str  # that of the proxy, behind one
    forwarded: bool = False

    def headers(self, key: str) -> dict[str, str]:
        """Tell the service; it believes who has its key."""
        told = {PAGE: f"{key} {self.address}"} if key else {}
        return {**told, **({"X-Forwarded-For": self.address} if self.forwarded else {})}


class Session:
    """A user that is logged in."""

    def __init__(self, connect: Callable[[str, Source], Client], token: str, user: types.User, source: Source) -> None:
        self.user, self.source = user, source
        self.checked_at = time.monotonic()
        self.sockets = 0  # open pages
        self._connect, self._token = connect, token
        self._idle: SimpleQueue[Client] = SimpleQueue()
        self._lock = asyncio.Lock()
        self._seen: tuple[float, types.Overview] | None = None

    async def ask(self, call: Callable[[Client], T]) -> T:
        """A call of the client, without holding other pages up. Raises what the client raises."""
        return await asyncio.to_thread(self._call, call)

    def _call(self, call: Callable[[Client], T]) -> T:
        source = self.source
        try:
            client = self._idle.get_nowait()
        except Empty:
            client = self._connect(self._token, source)
        try:
            return call(client)
        finally:
            if self._idle.qsize() < _MOST_IDLE and source == self.source:
                self._idle.put(client)
            else:
                client.close()

    async def overview(self) -> types.Overview:
        """All pages of a person share it: ten of them ask as often as one."""
        async with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                self._seen = time.monotonic(), await self.ask(Client.overview)
            return self._seen[1]

    def move(self, source: Source) -> None:
        """The browser asks from elsewhere, or by another way, than before."""
        if source != self.source:
            self.source = source
            self.close()

    def close(self) -> None:
        """The idle connections."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class Sessions:
    """All users that are logged in, by token."""

    def __init__(self, url: str, key: str = "") -> None:
        """`key` is the service's, if it is the one of this process."""
        self._url, self._key = url, key
        self._known: OrderedDict[str, Session] = OrderedDict()

    def connect(self, token: str, source: Source) -> Client:
        """A client for a browser there."""
        client = Client(self._url, token, _TIMEOUT)
        client.send_along(source.headers(self._key))
        return client

    async def find(self, token: str, source: Source) -> Session | None:
        """None if the service does not know the token (any more). ServiceUnreachable if it cannot be asked."""
        session = self._known.get(token)
        if session:
            session.move(source)
        if session and time.monotonic() - session.checked_at < _TRUST:
            return session
        try:
            user = await asyncio.to_thread(self._who, token, source)
        except ApiError as problem:
            if problem.status != 401:  # a proxy has trouble: that ends no log-in
                raise ServiceUnreachable(str(problem)) from problem
            self.forget(token)
            return None
        if session is None:
            session = self._known[token] = Session(self.connect, token, user, source)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)[1].close()
        session.user, session.checked_at = user, time.monotonic()
        return session

    def forget(self, token: str) -> None:
        if session := self._known.pop(token, None):
            session.close()

    def _who(self, token: str, source: Source) -> types.User:
        with self.connect(token, source) as client:
            return client.whoami()
