"""What must hold on a machine whatever its jobs report, whoever comes and goes, and however often the service dies.

The rules of the stages have tests of their own (tests/policies). Here it is about what the engine is told in the end.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.share.flowcon import FlowCon
from schedulearn.core.policies.share.flowcon_calm import FlowConCalm
from schedulearn.core.policies.share.shortest import Shortest
from support.live_machine import LiveMachine

CORES = 4.0
BETA = 2.0
STAGES = {
    "flowcon": lambda: FlowCon(alpha=0.03, itval=16, beta=BETA),
    "flowcon-calm": lambda: FlowConCalm(alpha=0.03, itval=16, beta=BETA),
    "shortest": lambda: Shortest(look=16),
}
SIZES: list[dict[str, Any]] = [
    {"steps": 40},
    {"wants": 0.5, "steps": 400},
    {"least": 1.0, "workers": 2},
    {"allowed": 2.0, "workers": 3, "steps": 100},
    {"least": 0.1, "allowed": 1.0},
]

_value = st.one_of(st.none(), st.integers(-256, 256).map(lambda n: n / 64))
_what = st.one_of(
    st.lists(_value, min_size=5, max_size=5),
    st.sampled_from(["arrive", "leave", "crash", "early"]),
)
_story = st.lists(_what, min_size=3, max_size=20)
_stage = st.sampled_from(sorted(STAGES))
few = settings(max_examples=40, deadline=None)


class Story:
    """Jobs come, go and report; the service dies, and looks when it need not."""

    def __init__(
        self, stage: str, story: Iterable[Any], *, scale: float = 1.0, shift: float = 0.0, sizes: Any = SIZES
    ) -> None:
        self.live, self.number = LiveMachine(STAGES[stage](), stage, CORES), 1
        self._scale, self._shift, self._sizes = scale, shift, sizes
        for what in ("arrive", "arrive", *story):
            self.happen(what)
            self.check()

    def happen(self, what: Any) -> None:
        live = self.live
        if what == "arrive" and len(live.jobs) < 5:
            live.pass_time(3)
            live.arrive(self.number, **self._sizes[self.number % len(self._sizes)])
            self.number += 1
        elif what == "leave" and len(live.jobs) > 1:
            live.pass_time(3)
            live.leave(min(live.jobs))
        elif what == "crash":
            live.live()
        elif what == "early":
            live.settle()
        elif isinstance(what, list):
            told = dict(zip(live.jobs, what, strict=False))
            live.interval({job: v if v is None else v * self._scale + self._shift for job, v in told.items()})

    def check(self) -> None:
        jobs, live = list(self.live.jobs.values()), self.live
        held = [live.held(job) for job in jobs]
        for job, cores in zip(jobs, held, strict=True):
            assert cores <= job.allowed + 1e-9, "its user's word counts"
            assert cores >= job.here.least - 1e-9, "its lease holds"
        uses = max_min(CORES, [min(job.wants, cores) for job, cores in zip(jobs, held, strict=True)])
        for job, use in zip(jobs, uses, strict=True):
            assert use >= min(job.wants, job.here.least) - 1e-9, "and can be had, beside all the others"


@given(_stage, _story)
@few
def test_what_is_guaranteed_fits_and_nobody_is_below_its_floor(stage: str, story: list[Any]) -> None:
    """Below what its lease guarantees, or a part of its equal share where leases leave room for that."""
    told = Story(stage, story)
    part = 0.1 if stage == "shortest" else 1 / BETA
    jobs = told.live.jobs.values()
    floors = [max(job.here.least, min(job.allowed, part * CORES / len(jobs))) for job in jobs]
    if sum(floors) <= CORES:
        assert all(told.live.held(job) >= floor - 1e-9 for job, floor in zip(jobs, floors, strict=True))


@given(_story, st.integers(-6, 6), st.integers(-1000, 1000), st.booleans())
@few
def test_the_unit_and_the_zero_of_a_metric_change_nothing(story: list[Any], power: int, shift: int, turn: bool) -> None:
    """Powers of two and whole numbers, so that not even rounding differs."""
    other = Story("flowcon-calm", story, scale=(-1.0 if turn else 1.0) * 2.0**power, shift=float(shift))
    assert Story("flowcon-calm", story).live.decisions() == other.live.decisions()


@given(_stage, _story)
@few
def test_silence_is_not_punished(stage: str, story: list[Any]) -> None:
    """Its equal share at least, or all that it wants. The first says nothing, and stays."""
    quiet = [[None, *what[1:]] if isinstance(what, list) else what for what in story if what != "leave"]
    told = Story(stage, quiet, sizes=[{"steps": 50, "workers": 2}, {"wants": 0.5}])
    jobs = list(told.live.jobs.values())
    shares = max_min(CORES, [min(job.wants, told.live.held(job)) for job in jobs])
    assert shares[0] >= min(jobs[0].wants, CORES / len(jobs)) - 1e-9
    if stage != "shortest":
        assert not [event for event in told.live.engine.asked if event.worker.job == 1]


@pytest.mark.parametrize("stage", ["flowcon-calm", "shortest"])
@given(st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=20, max_size=50), st.data())
@settings(max_examples=15, deadline=None)
def test_noise_does_not_make_limits_oscillate(stage: str, noise: list[list[float]], data: st.DataObject) -> None:
    """In n rounds what a job is told turns round at most √(2n) times and once, also over crashes."""
    live = LiveMachine(STAGES[stage](), stage, CORES)
    for number in (1, 2, 3):
        live.arrive(number, steps=60)
    crashes = data.draw(st.sets(st.integers(0, len(noise)), max_size=3))
    for k, values in enumerate(noise):
        live.interval(dict(enumerate(values, 1)))
        if k in crashes:
            live.live()
    for number in (1, 2, 3):
        told = [CORES, *(event.limits.cpus or 0.0 for event in live.engine.asked if event.worker.job == number)]
        steps = [after - before for before, after in pairwise(told) if after != before]
        assert sum(a * b < 0 for a, b in pairwise(steps)) <= math.sqrt(2 * len(noise)) + 1


@given(_story, st.booleans())
@few
def test_a_machine_that_refuses_is_shared_fairly_and_says_so_once(story: list[Any], is_old: bool) -> None:
    """It never could set a limit, or no longer can: then those that are in force stay, and no other is set."""
    told = Story("flowcon", [])
    live = told.live = LiveMachine(STAGES["flowcon"](), "flowcon", CORES)
    live.engine.refuses = set() if is_old else Anybody()
    converge(live)
    live.engine.refuses, before = Anybody(), dict(live.engine.held)
    told.number = 3
    told.happen("arrive")  # now the limit of the first should be another
    for what in story:
        if what != "crash" and (live.wake_at is not None or not isinstance(what, list)):
            told.happen(what)
    (refused,) = live.notes("share_refused")
    assert "no control groups" in refused.cause
    for job in live.jobs.values():
        for worker in job.here.workers:
            assert live.engine.held[worker] == before.get(worker, job.here.cpus)


@given(_stage, _story, st.sampled_from(["", "refuses", "is away", "crash"]))
@few
def test_a_policy_without_limits_leaves_none_behind(stage: str, story: list[Any], trouble: str) -> None:
    live = Story(stage, story).live
    live.engine.refuses = Anybody() if trouble == "refuses" else set()
    live.engine.is_away = trouble in ("is away", "crash")
    live.stage, live.stage_name = None, "fair"
    if trouble == "is away":
        live.live()
    else:
        live.machine.follow(live.stage, live.stage_name)
        live.settle()
    if trouble == "crash":
        live.live()
    live.engine.refuses, live.engine.is_away = set(), False
    while not live.machine.is_idle:
        assert live.wake_at is not None, "somebody must look"
        live.pass_time(live.wake_at - live.clock.now())
        live.settle()
    assert all(live.held(job) == pytest.approx(job.allowed) for job in live.jobs.values())


class Anybody(set[WorkerId]):
    def __contains__(self, worker: object) -> bool:
        return True


def test_a_worker_that_cannot_be_let_go_is_told_again_but_not_all_the_time() -> None:
    live = two_with_one_limited()
    worker = WorkerId.parse("1.1.0")
    limit, live.engine.refuses = live.engine.held[worker], {worker}
    before = len(live.engine.asked)
    live.leave(2)
    asked = len(live.engine.asked) - before
    assert asked <= 3
    assert live.engine.held[worker] == limit
    live.settle()
    assert len(live.engine.asked) - before == asked, "its engine needs time"
    live.engine.refuses = set()
    assert live.wake_at is not None
    live.pass_time(live.wake_at - live.clock.now())
    live.settle()
    assert live.engine.held[worker] == CORES


def two_with_one_limited() -> LiveMachine:
    """The first has converged when the second comes."""
    live = LiveMachine(STAGES["flowcon"](), "flowcon", CORES)
    converge(live)
    assert live.held(live.jobs[1]) < CORES
    return live


def converge(live: LiveMachine) -> None:
    live.arrive(1)
    for value in (2.0, 1.0, 1.0, 1.0, 1.0):
        live.interval({1: value})
    live.arrive(2)
