"""Allocate stages against tables worked out by hand, and against the bare rules on small random contests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.control.decide import decide
from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.queue import Queue
from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS, Resources
from schedulearn.core.domain.spec import JobSpec, WorkerResources, Workers
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.catalogue.presets import build_policy
from support.builders import World, job, node

LINEAR = SpeedUp(range(1, 65))
FLAT = SpeedUp([1])  # more workers bring nothing
HALF = SpeedUp(1 + 0.5 * n for n in range(64))  # each further worker brings half of the first
BUMP = SpeedUp([1, 1.25, 4, 4.25, 3, 8])  # neither concave nor rising all the way
DOUBLING = SpeedUp([1, 2, 4, 8])

A, B, C, D = 1, 2, 3, 4


@dataclass(frozen=True)
class J:
    """A job of a contest."""

    least: int = 1
    most: int = 1
    want: int = 0  # min if not said
    remaining: float = 10.0  # with `want` workers
    curve: SpeedUp = LINEAR
    has: int = 0  # workers it has now
    gpus: int = 1  # of one worker
    queue: int = 0  # of las

    @property
    def wanted(self) -> int:
        return self.want or self.least

    def length(self, workers: int) -> float:
        return self.remaining * self.curve(self.wanted) / self.curve(workers)


class KnownFacts:
    steady = True

    def __init__(self, jobs: Mapping[int, J]) -> None:
        self._jobs = jobs

    def remaining(self, job: Job, now: float) -> float:
        return self._jobs[job.id].remaining

    def duration(self, job: Job) -> float:
        return self._jobs[job.id].remaining

    def speedup(self, job: Job) -> SpeedUp:
        return self._jobs[job.id].curve

    def restart_cost(self, job: Job) -> float:
        return 0.0


def allocate(preset: str, slots: int, *jobs: J, params: dict[str, Any] | None = None, **stages: str) -> dict[int, int]:
    """How many workers each job has after one decision on a node with so many GPUs. Jobs are numbered from 1."""
    policy = build_policy(preset, {"place": "count", **stages}, params)
    ledger = Ledger([Node(NodeName("n"), capacity=Resources(gpus=slots), cpus_per_gpu=0.0)])
    known = dict(enumerate(jobs, 1))
    queue = Queue(policy.order, KnownFacts(known))
    adjustable = {GPUS: RunningJobs(), CPUS: RunningJobs()}
    for number, j in known.items():
        job = make_job(number, j)
        if j.has:
            job.placements = (Placement(NodeName("n")),) * j.has
            ledger.take_checked(job.shape, job.placements)
            adjustable[GPUS][job.id] = job
        else:
            queue.add(job, 0.0)
    before = list(queue)
    decision = decide(policy, queue, ledger, adjustable, 0.0, {})
    assert list(queue) == before, "a decision only looks"
    sizes = {number: j.has for number, j in known.items()}
    sizes.update(dict.fromkeys(decision.stops, 0))
    sizes.update({grant.job: len(grant.placements) for grant in decision.grants})
    return sizes


def make_job(number: int, j: J) -> Job:
    resources = WorkerResources(gpus=j.gpus, cpus_min=0.0, cpus_max=0.0)
    job = Job(
        JobId(number), JobSpec("j", (), workers=Workers(j.least, j.wanted, j.most), resources=resources), "ann", 0
    )
    job.order_state = [j.queue, 0 if j.has else 1, number, 0.0, 0.0]
    return job


# --- strict, rigid, elastic


@pytest.mark.parametrize(
    ("preset", "stages", "slots", "jobs", "expected"),
    [
        ("fifo", {"allocate": "strict"}, 4, [J(3, 3), J(2, 2), J(1, 1)], [3, 0, 0]),
        ("fifo", {"allocate": "strict"}, 6, [J(3, 3), J(2, 2), J(1, 1)], [3, 2, 1]),
        ("fifo", {"allocate": "strict"}, 3, [J(1, 4, want=2), J(1, 4, want=2)], [2, 0]),
        ("fifo", {}, 4, [J(3, 3), J(2, 2), J(1, 1)], [3, 0, 1]),
        ("fifo", {}, 4, [J(2, 2, has=2), J(3, 3), J(2, 2)], [2, 0, 2]),
        ("fifo", {}, 4, [J(1, 8, want=3), J(1, 8, want=3)], [3, 0]),
        ("elastic-fifo", {}, 4, [J(1, 2), J(4, 4)], [2, 0]),
        ("elastic-fifo", {}, 4, [J(2, 2)], [2]),
        ("elastic-fifo", {}, 8, [J(1, 8), J(1, 2), J(2, 8)], [3, 2, 3]),
        ("elastic-fifo", {}, 7, [J(1, 8), J(1, 8), J(1, 8)], [3, 2, 2]),
        ("elastic-fifo", {}, 4, [J(1, 4, has=4), J(2, 2)], [2, 2]),
        ("elastic-fifo", {}, 4, [J(2, 4, has=4), J(3, 3), J(1, 1)], [3, 0, 1]),
        ("elastic-fifo", {}, 6, [J(1, 4, gpus=2), J(1, 4)], [2, 2]),
        ("elastic-srjf", {}, 3, [J(2, 2, remaining=9), J(1, 3, remaining=1)], [2, 1]),
        ("elastic-srjf", {}, 2, [J(2, 2, remaining=9), J(1, 3, remaining=1)], [0, 2]),
    ],
)
def test_the_walk_and_the_shares(
    preset: str, stages: dict[str, str], slots: int, jobs: list[J], expected: list[int]
) -> None:
    assert list(allocate(preset, slots, *jobs, **stages).values()) == expected


# --- what earlier implementations got wrong, under every elastic stage


@pytest.mark.parametrize("preset", ["elastic-fifo", "elastic-srjf", "elastic-tiresias", "ffdl", "afs-l"])
class TestSeenElsewhere:
    def test_nobody_gets_fewer_than_min(self, preset: str) -> None:
        sizes = allocate(preset, 4, J(1, 2), J(4, 4))
        assert sizes in ({A: 2, B: 0}, {A: 0, B: 4})

    def test_nobody_gets_more_than_max(self, preset: str) -> None:
        assert allocate(preset, 4, J(2, 2)) == {A: 2}

    def test_min_is_given_at_once(self, preset: str) -> None:
        sizes = allocate(preset, 5, J(3, 4), J(3, 4))
        assert sorted(sizes.values()) == [0, 4]

    def test_a_job_alone_takes_all_it_can_use(self, preset: str) -> None:
        assert allocate(preset, 8, J(1, 6, curve=HALF)) == {A: 6}


# --- elastic-tiresias


@pytest.mark.parametrize(
    ("slots", "jobs", "expected"),
    [
        # want by the order, then the rest where it brings most
        (4, [J(1, 4, want=2, curve=HALF), J(1, 4, want=2, curve=HALF)], [2, 2]),
        (6, [J(1, 4, want=2, curve=HALF), J(1, 4, want=2)], [2, 4]),
        (5, [J(1, 4, want=2, curve=HALF), J(1, 4, want=2, curve=HALF)], [3, 2]),  # a tie: by the order
        (5, [J(1, 4, want=2, curve=HALF, queue=1), J(1, 4, want=2, curve=HALF)], [2, 3]),  # the first queue goes first
        # a waiting job whose want does not fit gets its min: gain 1 a slot beats 0.5
        (4, [J(1, 4, want=2, curve=HALF), J(1, 4, want=3, curve=HALF)], [3, 1]),
        # no gain, no worker: the rest stays free
        (8, [J(1, 8, curve=FLAT)], [1]),
        (8, [J(1, 8, curve=SpeedUp([1, 2, 1.5, 4]))], [2]),
        # the order is pre-emptive: new jobs of the first queue take the place of a demoted one
        (4, [J(4, 4, has=4, queue=1), J(2, 2)], [0, 2]),
    ],
)
def test_elastic_tiresias(slots: int, jobs: list[J], expected: list[int]) -> None:
    assert list(allocate("elastic-tiresias", slots, *jobs).values()) == expected


def test_compaction_shrinks_who_is_past_the_first_queue_when_many_wait() -> None:
    first, second = J(1, 4, want=4, has=4, curve=HALF), J(1, 4, want=4, has=4, curve=HALF, queue=1)
    wide = [J(8, 8, queue=1, curve=SpeedUp([0.1 * n for n in range(1, 9)]))]
    assert list(allocate("elastic-tiresias", 8, first, second, *wide * 10).values()) == [4, 4] + [0] * 10
    assert list(allocate("elastic-tiresias", 8, first, second, *wide * 11).values()) == [4, 4] + [0] * 11, "grown back"
    small = [J(1, 1, queue=1)] * 11
    assert list(allocate("elastic-tiresias", 8, first, second, *small).values()) == [4, 1, 1, 1, 1] + [0] * 8
    assert list(allocate("elastic-tiresias", 8, first, second, *small[:10]).values()) == [4, 4] + [0] * 10
    less = allocate("elastic-tiresias", 8, first, second, *small[:3], params={"compact_above": 2})
    assert list(less.values()) == [4, 1, 1, 1, 1]


def test_the_limit_of_compaction_is_a_whole_number() -> None:
    with pytest.raises(InvalidSpec, match="compact_above"):
        build_policy("elastic-tiresias", params={"compact_above": "few"})


def bare_elastic_tiresias(slots: int, jobs: Sequence[J], limit: int = 10) -> list[int]:
    """The rule, word for word."""
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i].queue, not jobs[i].has, i))
    sizes = [0] * len(jobs)

    def left() -> int:
        return slots - sum(n * j.gpus for n, j in zip(sizes, jobs, strict=True))

    for i in order:
        if jobs[i].wanted * jobs[i].gpus <= left():
            sizes[i] = jobs[i].wanted
    if sizes.count(0) > limit:
        for i, j in enumerate(jobs):
            if sizes[i] and j.queue >= 1:
                sizes[i] = j.least
    while True:
        best, best_gain, best_size = -1, 0.0, 0
        for i in order:
            j, n = jobs[i], sizes[i]
            to = n + 1 if n else j.least
            gain = (j.curve(to) - j.curve(n)) / ((to - n) * j.gpus)
            if to <= j.most and (to - n) * j.gpus <= left() and gain > best_gain:
                best, best_gain, best_size = i, gain, to
        if best < 0:
            return sizes
        sizes[best] = best_size


# --- ffdl


@pytest.mark.parametrize(
    ("slots", "jobs", "expected"),
    [
        (4, [J(1, 4, curve=HALF), J(1, 4)], [1, 3]),
        (4, [J(1, 4), J(1, 4)], [4, 0]),  # equally good: the first of the order gets more
        (4, [J(1, 4, curve=HALF), J(1, 4, curve=HALF)], [3, 1]),
        (4, [J(1, 2), J(4, 4)], [0, 4]),  # 4 together, against 2
        (4, [J(1, 2), J(4, 4, curve=FLAT)], [2, 0]),
        (6, [J(1, 6, curve=BUMP), J(1, 6, curve=BUMP)], [6, 0]),  # 8, and so would be 4 + 4
        (7, [J(1, 6, curve=BUMP), J(1, 6, curve=BUMP)], [6, 1]),
        (2, [J(1, 2, curve=FLAT), J(1, 2, curve=FLAT), J(1, 2)], [1, 1, 0]),  # only the first two take part
        (4, [J(2, 4, has=2, curve=FLAT), J(1, 4)], [2, 2]),  # fifo stops nobody
        (4, [J(1, 2, gpus=2), J(1, 2, gpus=1, curve=SpeedUp([3, 4]))], [1, 2]),
    ],
)
def test_ffdl(slots: int, jobs: list[J], expected: list[int]) -> None:
    assert list(allocate("ffdl", slots, *jobs).values()) == expected


def test_ffdl_may_stop_a_job_under_an_order_that_interrupts() -> None:
    assert allocate("ffdl", 4, J(2, 4, has=2, curve=FLAT), J(1, 4), order="srtf") == {A: 0, B: 4}


def total(jobs: Sequence[J], sizes: Sequence[int]) -> float:
    return sum(j.curve(n) for j, n in zip(jobs, sizes, strict=True))


def best_total(slots: int, jobs: Sequence[J], *, keep: bool) -> float:
    """By trying everything."""
    if not jobs:
        return 0.0
    job, rest = jobs[0], jobs[1:]
    options = [n for n in range(job.least, job.most + 1) if n * job.gpus <= slots]
    options += [] if keep and job.has else [0]
    totals = (job.curve(n) + best_total(slots - n * job.gpus, rest, keep=keep) for n in options)
    return max(totals, default=float("-inf"))


# --- afs


@pytest.mark.parametrize(
    ("slots", "jobs", "expected"),
    [
        # those that have nothing: the shorter with min workers first
        (1, [J(remaining=9), J(remaining=5)], [0, 1]),
        (2, [J(2, 2, remaining=4), J(1, 1, remaining=5)], [2, 0]),
        (2, [J(1, 4, want=4, remaining=4, curve=HALF), J(1, 1, remaining=5)], [1, 1]),
        (1, [J(1, 4, want=4, remaining=4, curve=HALF), J(1, 1, remaining=5)], [0, 1]),  # 4 × 2.5 with one worker
        (3, [J(4, 4, remaining=1), J(1, 1, remaining=5)], [0, 1]),  # its min does not fit: it drops out
        # everybody starts before anybody grows, unless that doubles its speed
        (2, [J(1, 2, remaining=1, curve=HALF), J(1, 2, remaining=9, curve=HALF)], [1, 1]),
        (2, [J(1, 2, remaining=1, curve=DOUBLING), J(1, 2, remaining=9)], [2, 0]),
        (4, [J(1, 4, remaining=1, curve=DOUBLING), J(1, 2, remaining=9)], [4, 0]),
        (5, [J(1, 4, remaining=1, curve=DOUBLING), J(1, 2, remaining=9)], [4, 1]),
        # both have one: the shorter gains 0.5, the longer lacks 1/3
        (3, [J(1, 4, remaining=1, curve=HALF), J(1, 4, remaining=9, curve=HALF)], [2, 1]),
        # then S (0.5 of 1.5: 0.33) and L (0.33, at one worker) are equal: the shorter again; L at 4 against S at 4
        (4, [J(1, 4, remaining=1, curve=HALF), J(1, 4, remaining=9, curve=HALF)], [3, 1]),
        (5, [J(1, 4, remaining=1, curve=HALF), J(1, 4, remaining=9, curve=HALF)], [3, 2]),
        # at max, or with no gain, one drops out
        (4, [J(1, 2, remaining=1, curve=HALF), J(1, 4, remaining=9, curve=HALF)], [2, 2]),
        (8, [J(1, 8, curve=SpeedUp([1, 2, 1.5, 4]))], [2]),
        (8, [J(1, 8, curve=FLAT), J(1, 3)], [1, 3]),
    ],
)
def test_afs(slots: int, jobs: list[J], expected: list[int]) -> None:
    assert list(allocate("afs-l", slots, *jobs).values()) == expected


def test_afs_compares_each_length_at_its_own_size() -> None:
    """A has four workers by now and 2.5 s left, B one and 9 s.

    At A's size B would have 2.25 s left and count as the shorter one, which gains 1 where A lacks only 1/5.
    """
    a, b = J(1, 5, remaining=10, curve=LINEAR), J(1, 2, remaining=9, curve=SpeedUp([1, 1.2]))
    assert bare_afs(6, [a, b]) == [5, 1]
    assert list(allocate("afs-l", 6, a, b).values()) == [5, 1]


def test_afs_interrupts_a_longer_job() -> None:
    assert allocate("afs-l", 2, J(2, 2, has=2, remaining=9), J(1, 1, remaining=1)) == {A: 0, B: 1}


def test_afs_leaves_running_jobs_their_min_under_an_order_that_does_not_interrupt() -> None:
    jobs = [J(1, 4, has=1, remaining=1, curve=DOUBLING), J(2, 2, has=2, remaining=9), J(1, 1, remaining=2)]
    assert list(allocate("afs-l", 4, *jobs, order="fifo").values()) == [2, 2, 0]


def bare_afs(slots: int, jobs: Sequence[J]) -> list[int]:
    """The rule, word for word."""
    sizes = [0] * len(jobs)

    def step(i: int) -> int:
        return 1 if sizes[i] else jobs[i].least

    def gain(i: int) -> float:
        return jobs[i].curve(sizes[i] + step(i)) - jobs[i].curve(sizes[i])

    def present_length(i: int) -> tuple[bool, float, int]:
        return (sizes[i] == 0, jobs[i].length(sizes[i] or jobs[i].least), i)

    def longer_wins(s: int, l: int) -> bool:  # noqa: E741
        if not sizes[s]:
            return False
        return gain(l) / jobs[l].curve(sizes[l] + step(l)) > gain(s) / jobs[s].curve(sizes[s])

    while True:
        left = slots - sum(n * j.gpus for n, j in zip(sizes, jobs, strict=True))
        able = [
            i for i, j in enumerate(jobs) if step(i) * j.gpus <= left and sizes[i] + step(i) <= j.most and gain(i) > 0
        ]
        if not able:
            return sizes
        in_order = sorted(able, key=present_length)
        champion = in_order[0]
        for i in in_order[1:]:
            if longer_wins(champion, i):
                champion = i
        sizes[champion] += step(champion)


# --- fast and bare agree

CURVES = [LINEAR, HALF, FLAT, BUMP, DOUBLING, SpeedUp([1, 1.75, 2.25, 2.5, 2.625]), SpeedUp([1, 1.5, 1.75])]


@st.composite
def some_jobs(draw: st.DrawFn, most: int, gpus: int = 2, can_run: bool = True) -> tuple[int, list[J]]:
    slots = draw(st.integers(1, 12))
    free, jobs = slots, []
    for _ in range(draw(st.integers(1, most))):
        least = draw(st.integers(1, 3))
        want = least + draw(st.integers(0, 2))
        top = want + draw(st.integers(0, 3))
        each = draw(st.integers(1, gpus))
        has = draw(st.sampled_from([0, 0, *range(least, top + 1)])) if can_run else 0
        has = has if has * each <= free else 0
        free -= has * each
        remaining, curve = draw(st.integers(1, 40)), draw(st.sampled_from(CURVES))
        jobs.append(J(least, top, want, float(remaining), curve, has, each, draw(st.integers(0, 1))))
    return slots, jobs


@given(some_jobs(8))
def test_afs_agrees_with_its_rule(contest: tuple[int, list[J]]) -> None:
    slots, jobs = contest
    assert list(allocate("afs-l", slots, *jobs).values()) == bare_afs(slots, jobs)


@st.composite
def alike(draw: st.DrawFn) -> tuple[int, list[J]]:
    """Everybody's min takes the same, and nobody doubles its speed: AFS takes a short way then."""
    slots = draw(st.integers(1, 12))
    free, jobs = slots, []
    curves = st.sampled_from([HALF, FLAT, *CURVES[-2:]])
    for _ in range(draw(st.integers(1, 16))):
        has = min(free, draw(st.sampled_from([0, 0, 1, 1, 2, 3])))
        free -= has
        want = max(1, has)
        jobs.append(J(1, want + draw(st.integers(0, 3)), want, float(draw(st.integers(1, 40))), draw(curves), has))
    return slots, jobs


@given(alike())
def test_the_short_way_of_afs_agrees_with_the_rule(contest: tuple[int, list[J]]) -> None:
    slots, jobs = contest
    assert list(allocate("afs-l", slots, *jobs).values()) == bare_afs(slots, jobs)


@given(some_jobs(14), st.sampled_from([0, 3, 10]))
def test_elastic_tiresias_agrees_with_its_rule(contest: tuple[int, list[J]], limit: int) -> None:
    slots, jobs = contest
    sizes = allocate("elastic-tiresias", slots, *jobs, params={"compact_above": limit})
    assert list(sizes.values()) == bare_elastic_tiresias(slots, jobs, limit)


@given(some_jobs(5), st.booleans())
def test_ffdl_finds_the_largest_sum(contest: tuple[int, list[J]], keep: bool) -> None:
    slots, jobs = contest
    sizes = list(allocate("ffdl", slots, *jobs, order="fifo" if keep else "srtf").values())
    ranked = sorted(jobs, key=lambda j: not j.has if keep else j.remaining)
    assert total(jobs, sizes) == pytest.approx(best_total(slots, ranked[:slots], keep=keep))


@given(some_jobs(8), st.sampled_from(["strict", "rigid", "elastic", "elastic-tiresias", "ffdl", "afs"]))
@pytest.mark.parametrize("order", ["fifo", "srtf", "las"])
def test_sizes_are_possible(order: str, contest: tuple[int, list[J]], stage: str) -> None:
    slots, jobs = contest
    sizes = list(allocate("fifo", slots, *jobs, order=order, allocate=stage).values())
    assert sum(n * j.gpus for n, j in zip(sizes, jobs, strict=True)) <= slots
    for n, j in zip(sizes, jobs, strict=True):
        assert n == 0 or j.least <= n <= j.most
        if j.has and order == "fifo":
            assert n > 0, "nobody is interrupted"


# --- whole cores


@pytest.mark.parametrize(
    ("preset", "cores", "jobs", "expected"),
    [
        ("cores-strict", 8, [J(4, 4), J(3, 3), J(2, 2)], [4, 3, 0]),
        ("cores-strict", 6, [J(4, 4), J(3, 3), J(2, 2)], [4, 0, 2]),
        ("cores-strict", 6, [J(4, 4, has=4), J(3, 3), J(2, 2)], [4, 0, 2]),
        ("cores-attend", 8, [J(1, 4, want=4), J(1, 3, want=3), J(1, 2, want=2)], [4, 3, 0]),  # one core is not enough
        ("cores-attend", 6, [J(1, 4, want=4), J(1, 3, want=3), J(1, 2, want=2)], [4, 2, 0]),
        ("cores-attend", 1, [J(1, 2, want=2), J(1, 1)], [1, 0]),  # but for an empty machine
        ("cores-attend", 6, [J(1, 4, want=4, has=2), J(1, 4, want=4, has=1), J(1, 2, want=2)], [4, 2, 0]),
        ("cores-attend", 8, [J(1, 4, want=4, has=4), J(1, 8, want=2)], [4, 2]),  # no more than was asked for
        ("cores-proportional", 8, [J(1, 4, want=4), J(1, 2, want=2), J(1, 2, want=2)], [4, 2, 2]),
        ("cores-proportional", 9, [J(1, 8, want=4), J(1, 2, want=2)], [4, 2]),
        ("cores-proportional", 4, [J(1, 4, want=4), J(1, 2, want=2), J(1, 2, want=2)], [2, 1, 1]),  # f = 2
        ("cores-proportional", 3, [J(1, 4, want=4), J(1, 2, want=2), J(1, 2, want=2)], [1, 1, 1]),  # f = 8/3
        ("cores-proportional", 2, [J(1, 4, want=4), J(1, 2, want=2), J(1, 2, want=2)], [1, 1, 0]),
        ("cores-proportional", 6, [J(1, 4, want=4, has=2), J(1, 4, want=4)], [4, 2]),  # first who runs, then f = 2
        ("cores-proportional", 4, [J(2, 2), J(2, 4, want=4), J(2, 2)], [2, 2, 0]),  # never below min: f = 2
    ],
)
def test_whole_cores(preset: str, cores: int, jobs: list[J], expected: list[int]) -> None:
    assert list(allocate(preset, cores, *jobs).values()) == expected


@pytest.mark.parametrize("preset", ["cores-strict", "cores-attend", "cores-proportional"])
@pytest.mark.parametrize(("params", "running"), [({}, [1, 2]), ({"memory_below": 1.0}, [1, 2, 3])])
def test_memory_closes_the_door(preset: str, params: dict[str, float], running: list[int]) -> None:
    world = World(node("a", cpus=8, memory=10e9), policy=preset, params=params)
    world.submit(*(job(i, memory=int(4.5e9)) for i in (1, 2)))
    world.submit(job(3, memory=int(0.5e9)))
    assert world.running() == running, "0.9 of the memory is leased"
