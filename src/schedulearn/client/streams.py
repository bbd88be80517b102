"""Following what goes on: events and logs that survive a restart of the service."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from schedulearn.client.errors import NoAnswer, ServiceUnreachable
from schedulearn.client.transport import Transport
from schedulearn.wire.types import FINISHED, Event, Job

T = TypeVar("T")
PERSISTENCE = 60.0  # seconds for which a call is repeated whose answer was lost
_LONGEST_PAUSE = 2.0  # seconds between two tries to reach the service


class Patience:
    """How long to go on without the service. It has to be reached once first: before that there is none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._met = False
        self._lost_at: float | None = None
        self._pause = 0.1

    def met(self) -> None:
        """The service answered."""
        self._met, self._lost_at, self._pause = True, None, 0.1

    def endure(self, problem: ServiceUnreachable) -> None:
        """Wait a little before the next try, or raise the problem if it has lasted too long."""
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
        if not self._met or now - self._lost_at >= self._seconds:
            raise problem
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def surely(call: Callable[[], T], seconds: float = PERSISTENCE) -> T:
    """Make a call that changes nothing when it is made twice, and make it again while its answer is lost on the way.

    Where nothing listens at all, that is said at once: nothing was lost. NoAnswer if it has lasted too long.
    """
    trying, lost = Patience(seconds), False
    trying.met()
    while True:
        try:
            return call()
        except ServiceUnreachable as problem:
            lost = lost or isinstance(problem, NoAnswer)
            if not lost:
                raise
            try:
                trying.endure(problem)
            except ServiceUnreachable:
                # It may be gone altogether by now, but an earlier try was heard.
                raise NoAnswer(str(problem)) from problem


class Message(NamedTuple):
    """One server-sent event. `id` is the last one seen; `data` is None for a message that carries only an id."""

    id: str
    event: str
    data: str | None


def messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """Server-sent events out of the bytes of a `text/event-stream`, however they were cut."""
    last_id, event, data = "", "", list[str]()
    for line in _lines(chunks):
        if not line:
            if data or last_id:
                yield Message(last_id, event or "message", "\n".join(data) if data else None)
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Complete lines; they end with LF, CR LF or CR. What is incomplete at the end is dropped."""
    rest = b""
    for chunk in chunks:
        parts = (rest + chunk).splitlines(keepends=True)
        # A CR at the very end may be the first half of CR LF.
        rest = parts.pop() if parts and not parts[-1].endswith(b"\n") else b""
        for part in parts:
            yield part.rstrip(b"\r\n").decode("utf-8", "replace")


def follow_events(transport: Transport, after: int | None, job: int | None, patience: float) -> Iterator[Event]:
    """Every event after a serial number (None: from now on), for ever; each once, whatever the connection does."""
    trying = Patience(patience)
    last = after
    while True:
        try:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(last)} if last is not None else {})
            query = {"after": last, "job": job, "follow": True}
            with transport.stream("/events", query, headers) as stream:
                trying.met()
                for message in messages(stream.chunks()):
                    last = _newer(last, message.id)
                    if message.data is not None:
                        yield json.loads(message.data)
            raise ServiceUnreachable("the service ended the stream")
        except ServiceUnreachable as problem:
            trying.endure(problem)


def _newer(last: int | None, text: str) -> int | None:
    return int(text) if text.isdigit() else last


class LogFollower:
    """The output of one worker of a job, attempt after attempt, until the job is finished.

    Each attempt is asked for by name: its stream ends when it has ended, so the bytes that came are the offset in
    its log at any moment.
    """

    def __init__(self, transport: Transport, get_job: Callable[[int], Job], job: int, worker: int) -> None:
        self._transport, self._get_job = transport, get_job
        self._job, self._worker = job, worker
        self.attempt = 0  # 0: there is none yet
        self.offset = 0

    def follow(self, only_attempt: bool, patience: float) -> Iterator[bytes]:
        """The bytes from here on. With `only_attempt` it ends with that attempt. The service was reached before."""
        trying = Patience(patience)
        trying.met()
        idle, over = 0.1, False
        while True:
            try:
                if self.attempt:
                    for chunk in self._stream(trying):
                        self.offset += len(chunk)
                        yield chunk
                job = self._get_job(self._job)
                trying.met()
                newer = job["attempt"] > self.attempt
                if not (newer or job["state"] in FINISHED):
                    time.sleep(idle)
                    idle = min(1.5 * idle, 1.0)
                elif self.attempt and not over:
                    # A service that is being stopped ends its streams as well: only one that was opened when the
                    # attempt was over has surely brought everything.
                    over = True
                elif newer and not only_attempt:
                    self.attempt, self.offset, over = self.attempt + 1, 0, False
                else:
                    return
            except ServiceUnreachable as problem:
                trying.endure(problem)

    def _stream(self, trying: Patience) -> Iterator[bytes]:
        query = {"attempt": self.attempt, "worker": self._worker, "offset": self.offset, "follow": True}
        with self._transport.stream(f"/jobs/{self._job}/logs", query) as stream:
            trying.met()
            yield from stream.chunks()
