"""The simulated executor in what only virtual time can show: when exactly things happen. The rest is its contract."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.events import Event, LimitsSet, WorkerExited, WorkerStarted
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.usage import Limits
from support.simulated_executor import SimulatedExecutor, World
from support.simulated_worker import Behaviour

HERE = NodeName("here")
SAVING = Behaviour(runs=100.0, term_takes=5.0, term_code=3)
STUBBORN = Behaviour(term_takes=math.inf)


class Site:
    """A world in which everybody behaves alike."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.world = World(lambda _: behaviour, at=1000.0)
        self.events: list[Event] = []
        self.executor = SimulatedExecutor(self.world, self.events.append, [])

    def start(self, number: int = 1, **more: Any) -> WorkerId:
        worker = WorkerId(JobId(number), 1, 0)
        self.executor.start(Launch(worker, HERE, JobSpec("test", "true"), **more))
        return worker

    def told(self) -> list[tuple[float, str]]:
        return [(event.at, type(event).__name__) for event in self.events]

    @property
    def ends(self) -> list[WorkerExited]:
        return [event for event in self.events if isinstance(event, WorkerExited)]


def test_nothing_is_told_before_time_passes() -> None:
    site = Site(Behaviour(runs=30.0))
    site.start()
    assert site.events == []
    site.world.advance(0)
    assert site.told() == [(1000.0, "WorkerStarted")]
    site.world.advance(29.5)
    assert len(site.events) == 1
    site.world.advance(100.0)
    assert site.told()[1:] == [(1030.0, "WorkerExited")]
    assert site.world.now() == 1129.5


def test_a_pause_takes_none_of_its_time() -> None:
    site = Site(Behaviour(runs=30.0))
    worker = site.start()
    site.world.advance(10)
    site.executor.pause(worker, HERE)
    site.world.advance(500)
    site.executor.resume(worker, HERE)
    site.world.advance(500)
    assert site.ends[0].at == 1530.0


def test_fewer_cores_make_it_slower() -> None:
    site = Site(Behaviour(runs=30.0, cores=4.0))
    worker = site.start()
    site.world.advance(10)
    site.executor.set_limits(worker, HERE, Limits(cpus=1.0))
    site.executor.set_limits(worker, HERE, Limits(cpus=1.0))  # changes nothing, and says nothing
    site.world.advance(20)
    usage = site.executor.usage(worker, HERE)
    assert usage
    assert (usage.cpu_seconds, usage.limits.cpus) == (60.0, 1.0)
    site.world.advance(500)
    assert site.ends[0].at == 1000.0 + 10 + 4 * 20
    assert [type(event) for event in site.events] == [WorkerStarted, LimitsSet, WorkerExited]


def test_less_memory_than_it_holds_is_refused() -> None:
    site = Site(Behaviour(memory=2_000_000_000))
    worker = site.start()
    site.executor.set_limits(worker, HERE, Limits(cpus=0.5, memory=1_000_000))
    site.world.advance(0)
    refused = site.events[-1]
    assert isinstance(refused, LimitsSet)
    assert "1 MB is below the 2 GB" in refused.problem
    usage = site.executor.usage(worker, HERE)
    assert usage
    assert usage.limits.cpus is None


@pytest.mark.parametrize(
    ("behaviour", "graces", "at", "ending", "saved"),
    [
        (SAVING, [(0, 60.0)], 1015.0, Ending.EXITED, True),
        (SAVING, [(0, 4.0)], 1014.0, Ending.SIGNALLED, False),  # killed while it saved
        (SAVING, [(0, 60.0), (2, 60.0)], 1015.0, Ending.EXITED, True),  # it does not begin anew
        (SAVING, [(0, 60.0), (2, 1.0)], 1013.0, Ending.SIGNALLED, False),
        (SAVING, [(0, 4.0), (2, 60.0)], 1014.0, Ending.SIGNALLED, False),  # never longer than it was
        (SAVING, [(0, 0.0)], 1010.0, Ending.SIGNALLED, False),
        (Behaviour(), [(0, 60.0)], 1010.0, Ending.SIGNALLED, False),
        (STUBBORN, [(0, 60.0)], 1070.0, Ending.SIGNALLED, False),
    ],
)
def test_when_it_ends_if_it_is_stopped(
    behaviour: Behaviour, graces: list[tuple[float, float]], at: float, ending: Ending, saved: bool
) -> None:
    site = Site(behaviour)
    worker = site.start()
    site.world.advance(10)
    for later, grace in graces:
        site.world.advance(later)
        site.executor.stop(worker, HERE, grace)
    site.world.advance(500)
    (end,) = site.ends
    assert (end.at, end.outcome.ending) == (at, ending)
    assert site.executor.has_checkpoint(JobId(1)) is saved


def test_a_stubborn_one_is_killed_even_while_it_stands_still() -> None:
    site = Site(STUBBORN)
    worker = site.start()
    site.executor.stop(worker, HERE, 60)
    site.executor.pause(worker, HERE)
    site.world.advance(500)
    assert (site.ends[0].at, site.ends[0].outcome.signal) == (1060.0, 9)


def test_a_closed_executor_tells_nothing_and_the_next_tells_what_was() -> None:
    site = Site(Behaviour(runs=30.0, exit_code=4))
    worker = site.start()
    site.executor.close()
    site.executor.close()
    site.world.advance(100)
    assert site.events == []
    second = SimulatedExecutor(site.world, site.events.append, [])
    second.stop(worker, HERE, 0)  # too late, but it learns so
    second.stop(worker, HERE, 0)
    site.world.advance(0)
    assert site.told() == [(1000.0, "WorkerStarted"), (1030.0, "WorkerExited")]
    assert site.ends[0].outcome.exit_code == 4


def test_what_a_sink_orders_is_done_in_the_same_stretch_of_time() -> None:
    site = Site(Behaviour(runs=30.0))
    times = []

    def react(event: Event) -> None:
        times.append((event.at, type(event)))
        if isinstance(event, WorkerExited) and event.worker.attempt < 3:
            launch = Launch(event.worker._replace(attempt=event.worker.attempt + 1), HERE, JobSpec("test", "true"))
            executor.start(launch)

    executor = SimulatedExecutor(site.world, react, [])
    executor.start(Launch(WorkerId(JobId(1), 1, 0), HERE, JobSpec("test", "true")))
    site.world.advance(1000)
    starts, ends = times[::2], times[1::2]
    assert starts == [(1000.0 + 30 * i, WorkerStarted) for i in range(3)]
    assert ends == [(1030.0 + 30 * i, WorkerExited) for i in range(3)]


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_time_passes_forwards_only(seconds: float) -> None:
    site = Site(Behaviour())
    with pytest.raises(ValueError, match="time cannot pass"):
        site.world.advance(seconds)
    assert site.world.now() == 1000.0


STEPS = st.lists(
    st.tuples(
        st.integers(0, 8),  # seconds until then
        st.sampled_from(["start", "adopt", "stop", "pause", "resume", "less", "more", "usage"]),
        st.integers(1, 3),
    ),
    max_size=20,
)


def _play(steps: list[tuple[int, str, int]], pieces: int) -> list[Event]:
    """All steps, with time passing in so many pieces between two of them."""
    site = Site(Behaviour(runs=16.0, term_takes=2.0, term_code=0))
    executor = site.executor
    for seconds, what, job in steps:
        for _ in range(pieces):
            site.world.advance(seconds / pieces)
        worker = WorkerId(JobId(job), 1, 0)
        orders = {
            "start": lambda job=job: site.start(job),
            "adopt": lambda worker=worker: executor.adopt(worker, HERE),
            "stop": lambda worker=worker: executor.stop(worker, HERE, 4.0),
            "pause": lambda worker=worker: executor.pause(worker, HERE),
            "resume": lambda worker=worker: executor.resume(worker, HERE),
            "less": lambda worker=worker: executor.set_limits(worker, HERE, Limits(cpus=0.5)),
            "more": lambda worker=worker: executor.set_limits(worker, HERE, Limits(cpus=2.0)),
            "usage": lambda worker=worker: executor.usage(worker, HERE),
        }
        orders[what]()
    site.world.advance(1000)
    return site.events


@given(STEPS)
def test_it_does_not_matter_in_which_pieces_time_passes(steps: list[tuple[int, str, int]]) -> None:
    assert _play(steps, pieces=1) == _play(steps, pieces=4)


@given(STEPS)
def test_each_worker_runs_once_and_ends_once(steps: list[tuple[int, str, int]]) -> None:
    events = _play(steps, pieces=1)
    for job in range(1, 4):
        own = [e for e in events if getattr(e, "worker", (0,))[0] == job]
        starts = {e.at for e in own if isinstance(e, WorkerStarted)}
        ends = {(e.at, e.outcome) for e in own if isinstance(e, WorkerExited) and e.outcome.ending is not Ending.LOST}
        assert len(starts) <= 1
        assert len(ends) <= len(starts)
