"""Jobs whose threads cannot change while they run: when a new limit is worth a restart."""

import math

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StartAttempt, StopWorker
from schedulearn.core.domain.ids import AttemptId, JobId, WorkerId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.usage import Limits
from support.builders import KILLED, World, job, node
from support.facts import AssumedFacts

ONE = JobId(1)
WORKER = WorkerId(ONE, 1, 0)


class Facts(AssumedFacts):
    """A restart costs 20 s."""

    def __init__(self, remaining: float) -> None:
        self._remaining = remaining

    def remaining(self, job: Job, now: float) -> float:
        return self._remaining

    def restart_cost(self, job: Job) -> float:
        return 20.0


def running(remaining: float = math.inf, preemptible: Preemptible = Preemptible.YES) -> World:
    world = World(node("a", cpus=8), facts=Facts(remaining))
    world.submit(job(1, preemptible=preemptible))
    world.started(1)
    return world


def limited(
    world: World, cpus: float | None, threads: int | None, problem: str = "", worker: WorkerId = WORKER
) -> bool:
    """Whether it is stopped after this."""
    world.cycle(ev.LimitsSet(world.now, worker, Limits(cpus=cpus), problem, threads))
    return world.job(1).state is JobState.STOPPING


def test_it_starts_again_with_the_right_number_in_the_same_place() -> None:
    world = running()
    placements = world.job(1).placements
    assert limited(world, 4.5, threads=2)
    assert [type(command) for command in world.commands] == [StopWorker]
    assert world.job(1).reason == "starts again with 4 threads in place of 2: they cannot change while it runs"
    world.exited(1, KILLED)
    assert world.commands == [StartAttempt(AttemptId(ONE, 2))]
    assert (world.job(1).placements, world.job(1).restarts, world.job(1).preemptions) == (placements, 0, 0)


@pytest.mark.parametrize(
    ("cpus", "threads", "restarts"),
    [
        (4.0, 2, True),
        (3.9, 2, False),
        (1.0, 2, True),
        (0.5, 2, True),
        (0.5, 1, False),
        (4.0, None, False),
        (None, 2, False),
    ],
)
def test_only_if_the_number_is_far_off(cpus: float | None, threads: int | None, restarts: bool) -> None:
    assert limited(running(), cpus, threads) is restarts


@pytest.mark.parametrize(
    ("cpus", "remaining", "restarts"),
    [(4.0, 39.0, False), (4.0, 41.0, True), (1.0, 190.0, False), (1.0, 210.0, True), (4.0, math.inf, True)],
)
def test_only_if_it_takes_less_time_in_all(cpus: float, remaining: float, restarts: bool) -> None:
    """Too few threads cost more than too many."""
    assert limited(running(remaining), cpus, threads=2) is restarts


def test_only_if_it_may_be_stopped() -> None:
    assert not limited(running(preemptible=Preemptible.NO), 4.0, threads=2)
    world = running(preemptible=Preemptible.AUTO)
    assert not limited(world, 4.0, threads=2), "it has no checkpoint"
    world.cycle(ev.CheckpointSeen(world.now, ONE))
    assert limited(world, 4.0, threads=2)


def test_nothing_changes_if_the_limit_did_not_or_it_is_old_news() -> None:
    assert not limited(running(), 4.0, threads=2, problem="no control groups here")
    assert not limited(running(), 4.0, threads=2, worker=WorkerId(ONE, 7, 0))
    world = running()
    assert limited(world, 4.0, threads=2)
    limited(world, 4.0, threads=2)
    assert world.commands == [], "it is being stopped already"
