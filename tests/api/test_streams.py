"""Output and events, as a whole and live, over real HTTP."""

import asyncio
import json
import random
import time
from typing import Any

import pytest

from schedulearn.api.common import tail
from schedulearn.core.domain.ids import AttemptId, JobId, WorkerId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.states import JobState
from schedulearn.service.gateway.views import StoredEvent

JOBS = "/api/v1/jobs"
EVENTS = "/api/v1/events"


def write(world: Any, attempt: AttemptId, data: bytes, offset: int = 0, rank: int = 0) -> None:
    """Add to the segment that begins at `offset`."""
    with (world.log_folder(attempt, rank) / f"{offset:015d}.log").open("ab") as file:
        file.write(data)


# --- output that is there


def test_a_job_that_never_started_has_no_output(ann: Any, job: int) -> None:
    answer = ann.get(f"{JOBS}/{job}/logs")
    assert (answer.status_code, answer.content, answer.headers["x-next-offset"]) == (200, b"", "0")


@pytest.mark.parametrize(
    ("query", "content", "next_offset"),
    [
        ("", b"one\ntwo\nthree\n", "14"),
        ("?tail=1", b"three\n", "14"),
        ("?tail=2", b"two\nthree\n", "14"),
        ("?tail=0", b"", "14"),
        ("?tail=100", b"one\ntwo\nthree\n", "14"),
        ("?offset=4", b"two\nthree\n", "14"),
        ("?offset=14", b"", "14"),
        ("?attempt=1", b"first attempt", "13"),
        ("?worker=0&attempt=2&offset=8", b"three\n", "14"),
    ],
)
def test_reading_output(world: Any, ann: Any, job: int, query: str, content: bytes, next_offset: str) -> None:
    write(world, world.run(job), b"first attempt")
    write(world, world.run(job), b"one\ntwo\nthree\n")
    answer = ann.get(f"{JOBS}/{job}/logs{query}")
    assert answer.content == content
    assert answer.headers["x-next-offset"] == next_offset
    assert answer.headers["content-type"].startswith("text/plain")


def test_output_comes_byte_for_byte(world: Any, ann: Any, job: int) -> None:
    noise = bytes(range(256)) * 4000  # more than one piece, and no UTF-8
    write(world, world.run(job), noise)
    assert ann.get(f"{JOBS}/{job}/logs").content == noise


def test_output_that_was_removed_is_skipped(world: Any, ann: Any, job: int) -> None:
    write(world, world.run(job), b"the rest", offset=1000)
    assert ann.get(f"{JOBS}/{job}/logs?offset=5").content == b"the rest"
    assert ann.get(f"{JOBS}/{job}/logs").headers["x-next-offset"] == "1008"


@pytest.mark.parametrize(
    ("query", "status"), [("?attempt=2", 404), ("?worker=1", 404), ("?tail=-1", 422), ("?offset=x", 422)]
)
def test_output_that_cannot_be(world: Any, ann: Any, job: int, problem: Any, query: str, status: int) -> None:
    world.run(job)
    problem(ann.get(f"{JOBS}/{job}/logs{query}"), status)


# --- following output


def test_following_ends_with_the_job_and_misses_nothing(world: Any, live: Any, job: int) -> None:
    attempt = world.run(job)
    write(world, attempt, b"before\n")
    stream = live.get(f"{JOBS}/{job}/logs?follow=true")
    assert stream.readline() == b"before\n"
    write(world, attempt, b"while\n")
    assert stream.readline() == b"while\n"
    write(world, attempt, b"last words")
    world.set_state(job, JobState.SUCCEEDED)
    assert stream.read() == b"last words"


def test_following_begins_before_the_start_and_goes_on_into_the_next_attempt(world: Any, live: Any, job: int) -> None:
    stream = live.get(f"{JOBS}/{job}/logs?follow=true")
    write(world, world.run(job), b"first\n")
    assert stream.readline() == b"first\n"
    write(world, world.run(job), b"second\n")
    assert stream.readline() == b"second\n"
    world.set_state(job, JobState.FAILED)
    assert stream.read() == b""


def test_following_the_tail(world: Any, live: Any, job: int) -> None:
    attempt = world.run(job)
    write(world, attempt, b"one\ntwo\n")
    stream = live.get(f"{JOBS}/{job}/logs?follow=true&tail=1")
    assert stream.readline() == b"two\n"
    write(world, attempt, b"three\n")
    assert stream.readline() == b"three\n"


def test_following_one_attempt_ends_with_it(world: Any, live: Any, job: int) -> None:
    write(world, world.run(job), b"first\n")
    world.run(job)
    assert live.get(f"{JOBS}/{job}/logs?follow=true&attempt=1").read() == b"first\n"


def test_following_one_attempt_does_not_wait_for_the_next(world: Any, live: Any, job: int) -> None:
    attempt = world.run(job)
    write(world, attempt, b"first\n")
    stream = live.get(f"{JOBS}/{job}/logs?follow=true&attempt=1")
    assert stream.readline() == b"first\n"
    world.save(leases_ended=[WorkerId(attempt.job, 1, 0)])
    world.set_state(job, JobState.QUEUED)
    assert stream.read() == b""


def test_following_ends_when_the_job_is_forgotten(world: Any, live: Any, job: int) -> None:
    write(world, world.run(job), b"x\n")
    stream = live.get(f"{JOBS}/{job}/logs?follow=true")
    assert stream.readline() == b"x\n"
    world.save(forgotten=[JobId(job)])
    assert stream.read() == b""


# --- events


def messages(stream: Any, count: int) -> list[dict[str, Any]]:
    """The next messages of a stream of server-sent events, checked for their form."""
    found: list[dict[str, Any]] = []
    lines: dict[str, str] = {}
    while len(found) < count:
        line = stream.readline().decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            lines[name] = value
        elif lines:
            event = json.loads(lines["data"])
            assert (lines["id"], lines["event"]) == (str(event["serial"]), event["kind"])
            found.append(event)
            lines = {}
    return found


def happen(world: Any, *causes: str) -> None:
    world.save(events=[HistoryEvent(1.5, "state", cause) for cause in causes])


def test_the_story_of_a_job(world: Any, ann: Any, job: int) -> None:
    happen(world, "something else")
    world.set_state(job, JobState.PAUSED)
    story = ann.get(f"{JOBS}/{job}/events").json()["events"]
    assert [event["kind"] for event in story] == ["submitted", "state"]
    assert story[0]["cause"] == "submitted by ann"
    assert (story[1]["job"], story[1]["state"]) == (job, "paused")
    later = ann.get(f"{JOBS}/{job}/events?after={story[0]['serial']}").json()["events"]
    assert later == story[1:]


def test_a_page_of_events(world: Any, ann: Any) -> None:
    happen(world, "a", "b", "c")
    page = ann.get(f"{EVENTS}?follow=false").json()["events"]
    assert [event["cause"] for event in page] == ["a", "b", "c"]
    assert page[0]["at"] == "1970-01-01T00:00:01.500000Z"
    rest = ann.get(f"{EVENTS}?follow=false&after={page[0]['serial']}&limit=1").json()["events"]
    assert [event["cause"] for event in rest] == ["b"]


def test_a_stream_begins_with_what_happens_from_now_on(world: Any, live: Any) -> None:
    happen(world, "long ago")
    stream = live.get(EVENTS)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.readline().startswith(b":")  # it listens
    happen(world, "now")
    assert [event["cause"] for event in messages(stream, 1)] == ["now"]


def test_a_stream_resumes_after_the_last_event_that_was_seen(world: Any, live: Any) -> None:
    happen(world, "a", "b", "c")
    first = messages(live.get(f"{EVENTS}?after=0"), 3)
    assert [event["cause"] for event in first] == ["a", "b", "c"]
    resumed = live.get(EVENTS, **{"Last-Event-ID": str(first[0]["serial"])})
    happen(world, "d")
    assert [event["cause"] for event in messages(resumed, 3)] == ["b", "c", "d"]


def test_a_stream_of_one_job(world: Any, live: Any, job: int) -> None:
    stream = live.get(f"{EVENTS}?after=0&job={job}")
    happen(world, "something else")
    world.set_state(job, JobState.PAUSED)
    assert [event["kind"] for event in messages(stream, 2)] == ["submitted", "state"]


def test_a_strange_last_event_id_is_ignored(world: Any, live: Any) -> None:
    stream = live.get(f"{EVENTS}?after=0", **{"Last-Event-ID": "never"})
    happen(world, "a")
    assert [event["cause"] for event in messages(stream, 1)] == ["a"]


def test_nobody_listens_without_a_token(live: Any) -> None:
    assert live.get(EVENTS, token="wrong").status == 401


def test_the_store_is_asked_no_more_once_the_listener_has_gone(
    world: Any, live: Any, monkeypatch: Any, eventually: Any
) -> None:
    asked: list[None] = []
    events_after = world.store.events_after

    def counting(*args: Any) -> Any:
        asked.append(None)
        return events_after(*args)

    def quiet() -> bool:
        before = len(asked)
        time.sleep(0.5)  # longer than the stream's own pace: that nothing happens has no event
        return len(asked) == before

    monkeypatch.setattr(world.store, "events_after", counting)
    stream = live.get(EVENTS)
    assert stream.readline().startswith(b":")
    eventually(lambda: len(asked) > 1)
    stream.close()
    eventually(quiet)


# --- many who follow


def test_what_many_listen_to_is_read_once(world: Any, live: Any, monkeypatch: Any) -> None:
    streams = [live.get(EVENTS) for _ in range(20)]
    for stream in streams:
        assert stream.readline().startswith(b":")
    happen(world, "the first")
    for stream in streams:
        messages(stream, 1)
    read: list[int] = []
    events_after = world.store.events_after

    def counting(*args: Any) -> Any:
        found = events_after(*args)
        read.extend(event.serial for event in found)
        return found

    monkeypatch.setattr(world.store, "events_after", counting)
    happen(world, "now")
    for stream in streams:
        assert [event["cause"] for event in messages(stream, 1)] == ["now"]
    assert len(read) == 1


def test_who_is_far_behind_or_wants_one_job_misses_nothing_and_gets_nothing_twice(monkeypatch: Any) -> None:
    """Events come while people begin to listen, each from somewhere else; the tail keeps only a few."""
    monkeypatch.setattr(tail, "POLL", 0.0)
    monkeypatch.setattr(tail, "_KEPT", 7)
    monkeypatch.setattr(tail, "_BATCH", 5)
    chance = random.Random(1)
    service = FakeService()

    async def listen(after: int, job: JobId | None) -> None:
        async for text in tail.tail_of(service).follow(after, job):  # type: ignore[arg-type]
            got = heard.setdefault((after, job), [])
            got += [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]
            await asyncio.sleep(chance.choice([0, 0, 0.001]))

    async def check() -> None:
        listeners = []
        for after, job in wanted:
            listeners.append(asyncio.ensure_future(listen(after, job)))
            for _ in range(chance.randrange(20)):
                service.happen(JobId(chance.randrange(1, 4)))
                await asyncio.sleep(0)
        service.happen(JobId(1), JobId(2), JobId(3))
        expected = {(after, job): service.serials(after, job) for after, job in wanted}
        while any(len(heard.get(who, ())) < len(serials) for who, serials in expected.items()):
            await asyncio.sleep(0.001)
        service.closing = True
        await asyncio.gather(*listeners)
        assert heard == expected

    heard: dict[tuple[int, JobId | None], list[int]] = {}
    wanted = [(10 * number, JobId(number % 3 + 1) if number % 2 else None) for number in range(12)]
    service.happen(*[JobId(1)] * 30)
    asyncio.run(asyncio.wait_for(check(), 60))


class FakeService:
    def __init__(self) -> None:
        self.closing = False
        self._events: list[StoredEvent] = []

    def happen(self, *jobs: JobId) -> None:
        for job in jobs:
            self._events.append(StoredEvent(len(self._events) + 1, HistoryEvent(1.5, "state", "x", job)))

    def serials(self, after: int, job: JobId | None) -> list[int]:
        return [event.serial for event in self.events(after, job, 10**9)]

    def events(self, after: int, job: JobId | None, limit: int) -> list[StoredEvent]:
        found = [event for event in self._events if event.serial > after and job in (None, event.event.job)]
        return found[:limit]

    def last_event(self) -> int:
        return len(self._events)


def test_output_that_many_follow_is_looked_at_once(world: Any, live: Any, job: int, monkeypatch: Any) -> None:
    attempt = world.run(job)
    write(world, attempt, b"first\n")
    streams = [live.get(f"{JOBS}/{job}/logs?follow=true") for _ in range(10)]
    for stream in streams:
        assert stream.readline() == b"first\n"
    write(world, attempt, b"second\n")
    for stream in streams:
        assert stream.readline() == b"second\n"
    world.set_state(job, JobState.SUCCEEDED)
    for stream in streams:
        assert stream.read() == b""
