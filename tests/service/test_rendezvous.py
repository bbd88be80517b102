"""How groups are formed: of exactly the members of the newest generation, with one answer for all, each once."""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.service.gateway import rendezvous
from schedulearn.service.gateway.rendezvous import Answer, Gathering, Rendezvous, Ticket, Wait

ATTEMPT = AttemptId(JobId(1), 1)


class Workers(RuleBasedStateMachine):
    """Workers that ask, ask again, give up and go, while the scheduler changes who belongs to the group."""

    @initialize(members=st.sets(st.integers(0, 4), min_size=1))
    def begin(self, members: set[int]) -> None:
        self.gathering = Gathering()
        self.generations = [tuple(sorted(members))]
        self.named = -1  # the newest generation that a worker has asked for
        self.open: dict[int, tuple[Ticket, int]] = {}  # who waits, and for which generation
        self.formed: dict[str, list[tuple[int, int, Answer, int]]] = {}
        self.names: set[str] = set()

    @rule(members=st.sets(st.integers(0, 6), min_size=1))
    def scheduler_changes_the_group(self, members: set[int]) -> None:
        self.generations.append(tuple(sorted(members)))

    @rule(data=st.data(), step=st.integers(-1, 3))
    def a_worker_asks(self, data: Any, step: int) -> None:
        """With the generation that its control file has, which may be old."""
        generation = data.draw(st.integers(max(0, len(self.generations) - 3), len(self.generations) - 1))
        rank = data.draw(st.sampled_from(self.generations[generation]))
        ticket = self.gathering.arrive(rank, generation, self.generations[generation], step)
        self.named = max(self.named, generation)
        if rank in self.open and generation == self.named:
            assert self.open.pop(rank)[0].answer is not None, "who asks again hangs up first"
        if generation < self.named:
            assert ticket.answer == Answer(self.named), "an old generation is not waited for"
        else:
            self.open[rank] = (ticket, generation)
        self.look()

    @rule(data=st.data())
    def a_worker_gives_up(self, data: Any) -> None:
        if self.open:
            rank = data.draw(st.sampled_from(sorted(self.open)))
            ticket, generation = self.open.pop(rank)
            answer = self.gathering.withdraw(ticket)
            waiting = set(self.open)
            assert answer == Answer(
                generation, missing=tuple(r for r in self.generations[generation] if r not in waiting | {rank})
            )

    def look(self) -> None:
        """Sort out who has been answered."""
        news: dict[str, dict[int, tuple[Ticket, int]]] = {}
        for rank, (ticket, generation) in list(self.open.items()):
            if ticket.answer is not None:
                del self.open[rank]
                if ticket.answer.group:
                    news.setdefault(ticket.answer.group, {})[rank] = (ticket, generation)
                else:
                    assert ticket.answer == Answer(self.named)
                    assert generation < self.named
        assert len(news) <= 1
        for name, members in news.items():
            self.check_group(name, members)

    def check_group(self, name: str, members: dict[int, tuple[Ticket, int]]) -> None:
        assert name not in self.names, "a name is used once"
        self.names.add(name)
        assert tuple(sorted(members)) == self.generations[self.named]
        assert {generation for _, generation in members.values()} == {self.named}
        answers = [members[rank][0].answer for rank in sorted(members)]
        steps = [members[rank][0].step for rank in sorted(members)]
        newest, differ = steps.index(max(steps)), len(set(steps)) > 1 or -1 in steps
        assert answers == [Answer(self.named, name, i, len(steps), newest, differ) for i in range(len(steps))]

    @invariant()
    def nobody_waits_when_all_are_there(self) -> None:
        if hasattr(self, "open") and self.open:
            assert {generation for _, generation in self.open.values()} == {self.named}
            assert set(self.open) < set(self.generations[self.named])
            assert set(self.gathering.waiting) == set(self.open)


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@settings(max_examples=40, deadline=None)
@given(
    waits=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.003, 5.0])), min_size=1, max_size=8),
)
def test_in_an_event_loop_everybody_is_answered_and_groups_are_whole(waits: list[tuple[int, float]]) -> None:
    async def run() -> list[Answer]:
        meeting, gone = Rendezvous(), asyncio.Event()
        members = (0, 1, 2, 3)
        asked = [*waits, *((rank, 10.0) for rank in members)]
        asks = [meeting.join(ATTEMPT, rank, 0, members, 1, Wait(seconds, gone)) for rank, seconds in asked]
        tasks = [asyncio.create_task(ask) for ask in asks]
        await asyncio.wait(tasks, timeout=0.01)
        gone.set()  # who has no group by now will not get one: some of the members do not ask again
        return await asyncio.gather(*tasks)

    answers = asyncio.run(run())
    groups: dict[str, list[int]] = {}
    for answer in answers:
        if answer.group:
            groups.setdefault(answer.group, []).append(answer.rank or 0)
    assert groups
    assert all(sorted(ranks) == [0, 1, 2, 3] for ranks in groups.values())


def test_who_is_missing_is_told_when_time_is_up() -> None:
    answer = asyncio.run(Rendezvous().join(ATTEMPT, 1, 7, (0, 1, 2), 5, Wait(0.0)))
    assert answer == Answer(7, missing=(0, 2))


def test_a_worker_that_has_hung_up_does_not_count() -> None:
    async def run() -> tuple[Answer, Any]:
        meeting, gone = Rendezvous(), asyncio.Event()
        first = asyncio.create_task(meeting.join(ATTEMPT, 0, 0, (0, 1), 5, Wait(10.0, gone)))
        await asyncio.sleep(0)
        assert meeting.waiting(ATTEMPT) == (0, (0,))
        gone.set()
        await first
        assert meeting.waiting(ATTEMPT) == (0, ())
        return await meeting.join(ATTEMPT, 1, 0, (0, 1), 5, Wait(0.0)), first

    assert asyncio.run(run())[0].missing == (0,)


def test_a_request_that_was_broken_off_does_not_count() -> None:
    async def run() -> None:
        meeting = Rendezvous()
        task = asyncio.create_task(meeting.join(ATTEMPT, 0, 0, (0, 1), 5, Wait(10.0)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert meeting.waiting(ATTEMPT) == (0, ())

    asyncio.run(run())


@pytest.mark.parametrize(
    ("rank", "members", "error"), [(2, (0, 1), InvalidSpec), (0, (0, 1, 2), Conflict), (1, (1,), Conflict)]
)
def test_a_generation_has_one_list_of_members(rank: int, members: tuple[int, ...], error: type[Exception]) -> None:
    gathering = Gathering()
    ticket = gathering.arrive(0, 3, (0, 1), 5)
    with pytest.raises(error):
        gathering.arrive(rank, 3, members, 5)
    assert gathering.waiting == {0: ticket}


def test_at_the_end_those_who_wait_and_those_who_come_later_are_told() -> None:
    gathering = Gathering()
    early = gathering.arrive(1, 4, (0, 1), -1)
    gathering.end()
    late = gathering.arrive(2, 5, (0, 1, 2), -1)
    assert (early.answer, late.answer) == (Answer(4, over=True), Answer(5, over=True))


# --- what a group needs to connect


async def formed(meeting: Rendezvous, members: tuple[int, ...] = (0, 1), generation: int = 0) -> str:
    asks = [meeting.join(ATTEMPT, rank, generation, members, 0, Wait(5.0)) for rank in members]
    answers = await asyncio.gather(*asks)
    assert answers[0].group
    return answers[0].group


@pytest.mark.parametrize("value", ["", " 1", "1_0", "\u0663", "9" * 31, "9" * 4300, "9" * 100_000])
def test_what_is_no_count_is_not_added_to(value: str) -> None:
    """Of 4300 digits the sum could be made, but not written: that was an error of the service itself."""

    async def run() -> None:
        meeting = Rendezvous()
        group = await formed(meeting)
        meeting.put(ATTEMPT, group, "n", value)
        with pytest.raises(InvalidSpec, match="not a number"):
            meeting.add(ATTEMPT, group, "n", 1)

    asyncio.run(run())


def test_values_are_waited_for_and_counted() -> None:
    async def run() -> None:
        meeting = Rendezvous()
        group = await formed(meeting)
        wanted = asyncio.create_task(meeting.get(ATTEMPT, group, ["a", "n"], Wait(10.0)))
        await asyncio.sleep(0)
        meeting.put(ATTEMPT, group, "a", "x")
        assert [meeting.add(ATTEMPT, group, "n", 2) for _ in range(2)] == [2, 4]
        assert await wanted == {"a": "x", "n": "4"}
        assert await meeting.get(ATTEMPT, group, ["a", "b"], Wait(0.0)) == {"a": "x"}
        with pytest.raises(InvalidSpec, match="not a number"):
            meeting.add(ATTEMPT, group, "a", 1)

    asyncio.run(run())


@pytest.mark.parametrize("generation", [0, 1])
def test_a_group_ends_when_a_member_asks_again(generation: int) -> None:
    async def run() -> None:
        meeting = Rendezvous()
        group = await formed(meeting)
        meeting.put(ATTEMPT, group, "a", "x")
        waits = asyncio.create_task(meeting.get(ATTEMPT, group, ["b"], Wait(10.0)))
        await asyncio.sleep(0)
        again = asyncio.create_task(meeting.join(ATTEMPT, 1, generation, (0, 1), 0, Wait(10.0)))
        with pytest.raises(NotFound, match="ask for a new one"):
            await waits
        with pytest.raises(NotFound):
            meeting.put(ATTEMPT, group, "a", "x")
        other = await meeting.join(ATTEMPT, 0, generation, (0, 1), 0, Wait(10.0))
        assert other.group not in (None, group)
        assert (await again).group == other.group

    asyncio.run(run())


def test_a_newcomer_that_waits_leaves_the_present_group_alone() -> None:
    async def run() -> None:
        meeting = Rendezvous()
        group = await formed(meeting)
        waits = asyncio.create_task(meeting.join(ATTEMPT, 2, 1, (0, 1, 2), -1, Wait(0.01)))
        await asyncio.sleep(0)
        meeting.put(ATTEMPT, group, "a", "x")
        assert (await waits).missing == (0, 1)

    asyncio.run(run())


def test_no_job_can_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "MOST_KEYS", 3)
    monkeypatch.setattr(rendezvous, "MOST_BYTES", 100)
    monkeypatch.setattr(rendezvous, "MOST_BYTES_OF_ALL", 150)
    monkeypatch.setattr(rendezvous, "MOST_WAITING", 2)

    async def run() -> None:
        meeting = Rendezvous()
        group = await formed(meeting)
        for key in "abc":
            meeting.put(ATTEMPT, group, key, "x")
        with pytest.raises(InvalidSpec, match="3 keys already"):
            meeting.put(ATTEMPT, group, "d", "x")
        meeting.put(ATTEMPT, group, "a", "x" * 80)  # one that is there may change
        with pytest.raises(InvalidSpec, match="does not fit"):
            meeting.put(ATTEMPT, group, "b", "x" * 80)
        other = AttemptId(JobId(2), 1)
        name = (await meeting.join(other, 0, 0, (0,), 0, Wait(0.0))).group
        with pytest.raises(Conflict, match="all jobs together"):
            meeting.put(other, name or "", "a", "x" * 80)
        polls = [asyncio.create_task(meeting.get(ATTEMPT, group, ["z"], Wait(10.0))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="wait already"):
            await meeting.get(ATTEMPT, group, ["z"], Wait(10.0))
        for poll in polls:
            poll.cancel()

    asyncio.run(run())


def test_attempts_that_nobody_asks_for_are_forgotten() -> None:
    times = count(0.0, 400.0)
    meeting = Rendezvous(clock=lambda: next(times))
    for job in range(20):
        meeting.waiting(AttemptId(JobId(job), 1))
    assert len(meeting._entries) <= 2


def test_a_service_that_stops_lets_nobody_wait() -> None:
    answer = asyncio.run(Rendezvous(closing=lambda: True).join(ATTEMPT, 0, 0, (0, 1), 0, Wait(20.0)))
    assert answer.missing == (1,)


def test_a_service_that_stops_lets_nobody_wait_for_a_value() -> None:
    async def ask() -> Mapping[str, str]:
        stopping = False
        meeting = Rendezvous(closing=lambda: stopping)
        joined = await asyncio.gather(*(meeting.join(ATTEMPT, rank, 0, (0, 1), 0, Wait(20.0)) for rank in (0, 1)))
        assert joined[0].group
        stopping = True
        # If it went on without giving way to others, this would not be cut off.
        return await asyncio.wait_for(meeting.get(ATTEMPT, joined[0].group, ["never"], Wait(20.0)), 10.0)

    assert asyncio.run(ask()) == {}
