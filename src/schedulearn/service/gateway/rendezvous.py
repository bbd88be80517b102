"""Where the workers of an attempt find each other whenever their number has changed.

A worker that is ready for a generation of its group waits here. Once all members of the newest generation wait, a group
is formed of exactly these, and each gets the same answer but for its place. The small values by which a group connects
are kept as long as it forms. All of it is in memory, and belongs to one event loop: after a restart of the service the
workers ask again. Which workers are members the scheduler decides, and tells each worker by its control file.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import AttemptId

LONGEST_WAIT = 20.0  # seconds that an answer may take
MOST_WAITING = 4_000  # requests of one attempt that wait at a time
MOST_KEYS = 10_000  # of one group
MOST_BYTES = 1_000_000  # of one group; gloo needs some kilobytes
MOST_BYTES_OF_ALL = 64_000_000  # of all groups together
_FORGET_AFTER = 600.0  # seconds without a request
_A_COUNT = re.compile(r"-?[0-9]{1,30}")  # more digits than all that is added will ever have
_SLICE = 0.5  # seconds until a request that waits notices that the service stops


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker is told that asked to be let in."""

    generation: int  # the newest that any worker has named
    group: str | None = None  # its name; None: there is none yet
    rank: int | None = None  # the worker's place in it
    size: int | None = None
    newest: int | None = None  # the place of the worker that has come furthest (of several: the first)
    differ: bool | None = None  # whether the others' states differ from that one's
    missing: tuple[int, ...] = ()  # members that do not wait yet
    over: bool = False  # the training has ended: there will be no more groups


class Ticket:
    """One worker that waits. `decided` is set once there is an answer."""

    def __init__(self, rank: int, step: int) -> None:
        self.rank, self.step = rank, step
        self.answer: Answer | None = None
        self.decided = asyncio.Event()

    def decide(self, answer: Answer) -> None:
        if self.answer is None:
            self.answer = answer
            self.decided.set()


class Group:
    """One that was formed, and what its members leave for each other while they connect."""

    def __init__(self, name: str, members: tuple[int, ...]) -> None:
        self.name, self.members = name, members
        self.values: dict[str, str] = {}
        self.bytes = 0
        self.over = False
        self.changed = asyncio.Event()  # replaced at every change

    def put(self, key: str, value: str) -> None:
        self.bytes += len(value) - len(self.values[key]) if key in self.values else len(key) + len(value)
        self.values[key] = value
        self.announce()

    def close(self) -> None:
        self.over, self.values, self.bytes = True, {}, 0
        self.announce()

    def announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Gathering:
    """The workers of one attempt. Knows no clock and never waits: `Rendezvous` does that."""

    def __init__(self, first_serial: int = 0) -> None:
        self.generation = -1
        self.members: tuple[int, ...] = ()
        self.waiting: dict[int, Ticket] = {}
        self.group: Group | None = None
        self.over = False
        self._serial = first_serial

    def arrive(self, rank: int, generation: int, members: tuple[int, ...], step: int) -> Ticket:
        """The worker is ready for this generation; `step` tells how far it has come, -1 that it has no state."""
        if rank not in members:
            raise InvalidSpec("members", f"worker {rank} is not one of them", "the members of the generation")
        if generation == self.generation and members != self.members:
            raise Conflict(f"generation {generation} has other members: {_listed(self.members)}")
        self._leave_group(rank)
        ticket = Ticket(rank, step)
        if self.over:
            ticket.decide(Answer(max(generation, self.generation), over=True))
        elif generation < self.generation:
            ticket.decide(Answer(self.generation))
        else:
            self._take(ticket, generation, members)
        return ticket

    def withdraw(self, ticket: Ticket) -> Answer:
        """The worker waits no longer. What it is told: an answer that came after all, or which members are missing."""
        if self.waiting.get(ticket.rank) is ticket:
            missing = self.missing()
            del self.waiting[ticket.rank]
            ticket.decide(Answer(self.generation, missing=missing))
        assert ticket.answer is not None
        return ticket.answer

    def end(self) -> None:
        """A member has come to the end of the training. Workers that still wait would wait for ever."""
        self.over = True
        self._send_away(Answer(self.generation, over=True))

    def missing(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank not in self.waiting)

    def _take(self, ticket: Ticket, generation: int, members: tuple[int, ...]) -> None:
        if generation > self.generation:
            self.generation, self.members = generation, members
            self._send_away(Answer(generation))
        if earlier := self.waiting.pop(ticket.rank, None):
            earlier.decide(Answer(generation))  # it is not read any more, as the worker has asked again
        self.waiting[ticket.rank] = ticket
        if not self.missing():
            self._form()

    def _form(self) -> None:
        if self.group:
            self.group.close()
        self._serial += 1
        self.group = Group(f"{self.generation}.{self._serial}", self.members)
        steps = [self.waiting[rank].step for rank in self.members]
        newest = steps.index(max(steps))
        differ = len(set(steps)) > 1 or steps[0] < 0
        for place, rank in enumerate(self.members):
            name, size = self.group.name, len(steps)
            self.waiting[rank].decide(Answer(self.generation, name, place, size, newest, differ))
        self.waiting.clear()

    def _leave_group(self, rank: int) -> None:
        """A member that asks again is not in its group. The others need not wait until that shows."""
        if self.group and rank in self.group.members:
            self.group.close()

    def _send_away(self, answer: Answer) -> None:
        for ticket in self.waiting.values():
            ticket.decide(answer)
        self.waiting.clear()


@dataclass(slots=True)
class _Entry:
    gathering: Gathering
    used_at: float
    polls: int = 0  # requests that wait now


@dataclass(slots=True)
class Rendezvous:
    """The gatherings of all attempts. To be used from one event loop."""

    closing: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    _entries: dict[AttemptId, _Entry] = field(default_factory=dict)

    async def join(
        self, attempt: AttemptId, rank: int, generation: int, members: tuple[int, ...], step: int, wait: "Wait"
    ) -> Answer:
        """Wait for a group of this generation, as long as `wait` lasts."""
        entry = self._entry(attempt)
        ticket = entry.gathering.arrive(rank, generation, members, step)
        try:
            await self._patiently(entry, ticket.decided, wait)
        finally:
            answer = entry.gathering.withdraw(ticket)
        return answer

    def waiting(self, attempt: AttemptId) -> tuple[int, tuple[int, ...]]:
        """The newest generation that is known (-1: none), and which of its members wait."""
        gathering = self._entry(attempt).gathering
        return gathering.generation, tuple(sorted(gathering.waiting))

    def end(self, attempt: AttemptId) -> None:
        self._entry(attempt).gathering.end()

    # --- what a group needs to connect

    def put(self, attempt: AttemptId, group: str, key: str, value: str) -> None:
        found = self._group(attempt, group)
        self._check_room(found, key, value)
        found.put(key, value)

    def add(self, attempt: AttemptId, group: str, key: str, amount: int) -> int:
        """Count up; a key that is not there counts from 0."""
        found = self._group(attempt, group)
        value = found.values.get(key, "0")
        if not _A_COUNT.fullmatch(value):
            raise InvalidSpec("key", f"the value of {key!r} is not a number", "a key that is only added to")
        total = int(value) + amount
        self.put(attempt, group, key, str(total))
        return total

    async def get(self, attempt: AttemptId, group: str, keys: Collection[str], wait: "Wait") -> Mapping[str, str]:
        """The values of those keys that are there; waits until all are, as long as `wait` lasts."""
        found, entry = self._group(attempt, group), self._entry(attempt)
        missing = [key for key in keys if key not in found.values]
        while missing and not found.over and wait.goes_on() and not self.closing():
            await self._patiently(entry, found.changed, wait)
            missing = [key for key in missing if key not in found.values]
        if found.over:
            raise _no_group(group)
        return {key: found.values[key] for key in keys if key in found.values}

    # --- helpers

    async def _patiently(self, entry: _Entry, event: asyncio.Event, wait: "Wait") -> None:
        if entry.polls >= MOST_WAITING:
            raise Conflict(f"{MOST_WAITING} requests of this attempt wait already")
        entry.polls += 1
        try:
            while not event.is_set() and wait.goes_on() and not self.closing():
                await wait.for_event(event, _SLICE)
        finally:
            entry.polls -= 1
            entry.used_at = self.clock()

    def _entry(self, attempt: AttemptId) -> _Entry:
        now = self.clock()
        self._forget(now)
        if attempt not in self._entries:
            # No name is used twice, not even by the next life of the service: an old one must not lead to a new group.
            self._entries[attempt] = _Entry(Gathering(secrets.randbelow(2**31)), now)
        entry = self._entries[attempt]
        entry.used_at = now
        return entry

    def _forget(self, now: float) -> None:
        """Attempts not asked for lately: they are over, or know by themselves what they need."""
        old = [id for id, entry in self._entries.items() if not entry.polls and now - entry.used_at > _FORGET_AFTER]
        for attempt in old:
            del self._entries[attempt]

    def _group(self, attempt: AttemptId, name: str) -> Group:
        group = self._entry(attempt).gathering.group
        if group is None or group.name != name or group.over:
            raise _no_group(name)
        return group

    def _check_room(self, group: Group, key: str, value: str) -> None:
        if key not in group.values and len(group.values) >= MOST_KEYS:
            raise InvalidSpec("key", f"the group has {len(group.values)} keys already", f"at most {MOST_KEYS}")
        if group.bytes + len(key) + len(value) > MOST_BYTES:
            raise InvalidSpec("value", "it does not fit", f"{MOST_BYTES} characters in all values of a group")
        groups = (entry.gathering.group for entry in self._entries.values())
        if sum(g.bytes for g in groups if g) + len(key) + len(value) > MOST_BYTES_OF_ALL:
            raise Conflict("the groups of all jobs together leave no room; try again later")


class Wait:
    """How long a request waits: until its time is up, or until the caller has gone."""

    def __init__(self, seconds: float, gone: asyncio.Event | None = None) -> None:
        self._until = time.monotonic() + min(seconds, LONGEST_WAIT)
        self._gone = gone or asyncio.Event()

    def goes_on(self) -> bool:
        return not self._gone.is_set() and time.monotonic() < self._until

    async def for_event(self, event: asyncio.Event, most: float) -> None:
        """Until the event, until the caller has gone, or `most` seconds."""
        tasks = [asyncio.ensure_future(e.wait()) for e in (event, self._gone)]
        try:
            rest = max(0.0, min(most, self._until - time.monotonic()))
            await asyncio.wait(tasks, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


def _no_group(name: str) -> NotFound:
    return NotFound(f"there is no group {name} (any more): ask for a new one")


def _listed(members: tuple[int, ...]) -> str:
    return ", ".join(map(str, members))
