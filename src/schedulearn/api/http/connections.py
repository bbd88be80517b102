"""The open connections, and which have to go when there are too many.

A connection is a stranger until a request on it has shown a good token. Strangers are let in as long as there is
room; when there is none, the oldest makes room for the next, whatever it does. So no client can shut others out by
opening connections and saying next to nothing: each of them only pushes out one of its own.
"""

import resource
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from schedulearn.asgi import is_loopback

RESERVED = 256  # descriptors that clients never get: for the database, jobs, engines, snapshots


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may hold. Seconds are looked at twice a second."""

    total: int = 4096  # connections
    per_address: int = 512  # of these, strangers from one address; from this machine as many as there are
    header: float = 10.0  # seconds for the head of a request, and for all that comes before it (TLS, idling)
    header_bytes: int = 32_768
    stall: float = 120.0  # seconds in which a client that has much to read, or was told goodbye, must take something


def limits_for_this_process() -> Limits:
    """As many descriptors as the system grants are taken; some are kept from clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    granted = most if soft == resource.RLIM_INFINITY else soft
    return Limits(total=max(16, min(Limits().total, granted - RESERVED)))


class Connection:
    """One connection, from the moment it was accepted."""

    __slots__ = ("address", "drop", "requests", "stuck", "trusted", "waits")

    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.trusted = False
        self.requests = 0  # under way
        self.waits: float | None = now  # since when there is no request; None: there is one
        self.stuck: float | None = None  # since when it takes nothing of what it is sent
        self.drop: Callable[[], None] = lambda: None  # ends it at once


class Connections:
    """All of them. For one thread: that of the event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._strangers: OrderedDict[Connection, None] = OrderedDict()  # the oldest first
        self._by_address: dict[str, OrderedDict[Connection, None]] = {}  # of strangers
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # trusted; the longest idle first
        self._busy: set[Connection] = set()  # trusted

    def __len__(self) -> int:
        return len(self._strangers) + len(self._idle) + len(self._busy)

    def admit(self, address: str, now: float) -> Connection | None:
        """A place for a new connection, if need be that of another one; None if all others are trusted and busy."""
        theirs = self._by_address.get(address, OrderedDict())
        if len(theirs) >= self.limits.per_address and not is_loopback(address):
            self._end(next(iter(theirs)))
        elif len(self) >= self.limits.total:
            oldest = next(iter(self._strangers), None) or next(iter(self._idle), None)
            if oldest is None:
                return None
            self._end(oldest)
        made = Connection(address, now)
        self._strangers[made] = None
        self._by_address.setdefault(address, OrderedDict())[made] = None
        return made

    def trust(self, one: Connection) -> None:
        """A request on it has shown a good token."""
        if not one.trusted and one in self._strangers:
            self._forget_stranger(one)
            one.trusted = True
            self._busy.add(one)

    def began(self, one: Connection) -> None:
        """The head of a request is there."""
        one.requests += 1
        one.waits = None
        if one in self._idle:
            del self._idle[one]
            self._busy.add(one)

    def ended(self, one: Connection, now: float) -> None:
        """A request was answered."""
        one.requests -= 1
        if one.requests > 0:  # others were sent after it already
            return
        one.waits = now
        if one in self._busy:
            self._busy.remove(one)
            self._idle[one] = None

    def forget(self, one: Connection) -> None:
        """It is closed."""
        self._forget_stranger(one)
        self._idle.pop(one, None)
        self._busy.discard(one)

    def sweep(self, now: float) -> None:
        """End those that let us wait for too long."""
        for one in [*self._strangers, *self._idle, *self._busy]:
            if _longer(one.waits, self.limits.header, now) or _longer(one.stuck, self.limits.stall, now):
                self._end(one)

    def _end(self, one: Connection) -> None:
        self.forget(one)
        one.drop()

    def _forget_stranger(self, one: Connection) -> None:
        self._strangers.pop(one, None)
        theirs = self._by_address.get(one.address)
        if theirs is not None:
            theirs.pop(one, None)
            if not theirs:
                del self._by_address[one.address]


def _longer(since: float | None, seconds: float, now: float) -> bool:
    return since is not None and now - since > seconds
