"""`shortest`: who goes first by hand-computed numbers, and what must hold whatever is estimated and used."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.ids import JobId
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.share.shortest import Shortest, told
from schedulearn.core.policies.share.turns import Claim, amounts, ranked, set_the_end
from support.machine import Machine

NONE = math.inf
LOOK, FLOOR = 5.0, 0.1


def claim(job: int, left: float | None, demand: float = 1.0, floor: float = 0.0) -> Claim:
    return Claim(JobId(job), left, demand, floor)


# --- whose turn it is


@pytest.mark.parametrize(
    ("left", "before", "order"),
    [
        ([30, 10, 20], [], [2, 3, 1]),
        ([10, 9, 30], [1, 3], [2, 1, 3]),  # a newcomer takes its place
        ([10, 9, 30], [1, 2, 3], [1, 2, 3]),  # a little less is no reason to overtake
        ([10, 7, 30], [1, 2, 3], [2, 1, 3]),
        ([10, None, 5], [1, 2], [3, 1]),  # nobody can tell of 2
        ([40, 30, 20, 10], [1, 2, 3, 4], [4, 3, 2, 1]),
    ],
)
def test_the_least_work_goes_first(left: list[float | None], before: list[int], order: list[int]) -> None:
    claims = [claim(job, work) for job, work in enumerate(left, 1)]
    assert ranked(claims, [JobId(job) for job in before]) == order


def test_what_one_cannot_use_is_for_the_next() -> None:
    claims = [claim(1, 10, 0.3), claim(2, 20, 0.5), claim(3, 30), claim(4, 40, floor=0.05)]
    given_out = amounts(claims, [JobId(j) for j in (1, 2, 3, 4)], 1.0)
    assert given_out == pytest.approx({1: 0.3, 2: 0.5, 3: 0.15, 4: 0.05})


def test_who_cannot_be_ranked_has_its_equal_share() -> None:
    claims = [claim(1, 10), claim(2, None), claim(3, 30), claim(4, None)]
    assert amounts(claims, [JobId(1), JobId(3)], 1.0) == pytest.approx({1: 0.5, 2: 0.25, 3: 0.0, 4: 0.25})


def test_a_long_job_that_uses_little_goes_before_it_is_too_late() -> None:
    """730 s with a fifth of the machine: 146; beside it the others need 400 / 0.8 = 500 s, or 1000 s."""
    assert set_the_end([claim(1, 146, 0.2), claim(2, 400)], 1.0) == [1]
    assert set_the_end([claim(1, 146, 0.2), claim(2, 800)], 1.0) == []
    assert set_the_end([claim(1, 400), claim(2, 10)], 1.0) == [], "who can use all of it can catch up"


@pytest.mark.parametrize(
    ("estimate", "worth"),
    [
        (None, None),
        (Estimate(5, 10, 15), 10),
        (Estimate(1, 10, 100), None),  # it may be anything
        (Estimate(0, 0, 0), None),  # it should have ended
        (Estimate(math.inf, math.inf, math.inf), None),
    ],
)
def test_what_an_estimate_is_worth(estimate: Estimate | None, worth: float | None) -> None:
    assert told(estimate) == worth


# --- one machine


def test_a_short_job_gets_the_machine_at_once_and_gives_it_back() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, work=200.0)
    machine.pass_time(40)
    machine.arrive(2, work=50.0)
    assert machine.limits() == {1: pytest.approx(0.05), 2: NONE}, "at once, and nobody has nothing"
    machine.pass_time(20)
    machine.leave(2)
    assert machine.limits() == {1: NONE}


def test_nobody_is_limited_while_nobody_can_tell() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    for job in (1, 2, 3):
        machine.arrive(job)
    for _ in range(5):
        machine.interval({})
    assert all(not answer.limits for _, answer in machine.answers)


def test_a_job_that_outlives_its_estimate_has_its_equal_share() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, work=200.0)
    machine.arrive(2, work=20.0)
    assert machine.limits()[2] == NONE
    for _ in range(8):
        machine.interval({})
    assert (machine.limits()[2], machine.limits()[1]) == (pytest.approx(0.5), NONE)


def test_who_always_says_that_it_is_almost_done_is_not_believed_for_long() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, work=2000.0)
    machine.arrive(2, work=1.0)
    liar = machine.tenants[JobId(2)]
    for _ in range(8):
        liar.work = liar.used + 1.0  # one more second, whatever it has used
        machine.interval({})
    assert (machine.limits()[2], machine.limits()[1]) == (pytest.approx(0.5), NONE)


def test_cores_that_the_first_does_not_use_go_to_the_next() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, wants=0.4, work=10.0)
    machine.arrive(2, work=100.0)
    machine.interval({})
    assert machine.limits()[1] == NONE
    machine.pass_time(1.0)
    assert machine.tenants[JobId(2)].limit == pytest.approx(0.6, abs=0.05)


def test_it_looks_ever_more_seldom_while_nothing_changes() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, work=1000.0)
    for _ in range(7):
        machine.interval({})
    waits = [b - a for (a, _), (b, _) in pairwise(machine.answers)]
    assert waits == [5, 10, 20, 40, 40, 40, 40]
    wake = machine.answers[-1][1].wake_at
    machine.pass_time(3)
    assert machine.look().wake_at == wake, "asked in between, it says when"


def test_every_limit_is_noted_with_its_numbers() -> None:
    machine = Machine(Shortest(LOOK, FLOOR))
    machine.arrive(1, work=200.0)
    machine.arrive(2, work=50.0)
    (note,) = machine.answers[-1][1].notes
    assert (note.kind, note.job, note.data["after"]) == ("share_limit", 1, pytest.approx(0.05))
    assert (note.data["left"], note.data["order"]) == ({"1": 200.0, "2": 50.0}, [2, 1])


# --- whatever happens

_works = st.one_of(st.none(), st.floats(1, 500))
_jobs = st.fixed_dictionaries(
    {
        "wants": st.floats(0.2, 4.0),
        "least": st.sampled_from([0.0, 0.1, 0.5]),
        "work": _works,
        "off": st.floats(0.2, 5.0),
        "doubt": st.floats(1.0, 3.0),
    }
)
_story = st.lists(st.one_of(_jobs, st.sampled_from(["leave", "look", "look"])), min_size=1, max_size=25)
CORES = 4.0


def play(story: list[Any], unit: float = 1.0, look: float = LOOK) -> Machine:
    """`unit`: everything takes so many times as long."""
    machine, number = Machine(Shortest(look * unit, FLOOR), CORES), 0
    for what in story:
        if isinstance(what, dict):
            number += 1
            if len(machine.tenants) < 6:
                work = None if what["work"] is None else what["work"] * unit
                machine.arrive(number, **{**what, "work": work})
        elif what == "leave" and machine.tenants:
            machine.pass_time(unit)
            machine.leave(min(machine.tenants))
        elif machine.tenants:
            machine.interval({})
        check(machine)
    return machine


def check(machine: Machine) -> None:
    tenants = list(machine.tenants.values())
    n = len(tenants)
    uses = max_min(CORES, [min(t.wants, t.limit) for t in tenants])
    for tenant, use in zip(tenants, uses, strict=True):
        floor = max(tenant.least, FLOOR * CORES / n)
        assert tenant.limit >= floor - 1e-9, "nobody is below its floor"
        assert use >= min(tenant.wants, floor) - 1e-9, "and everybody can have it"
        if tenant.work is None:
            assert use >= min(tenant.wants, CORES / n) - 1e-9, "silence is not punished"


@given(_story)
@settings(max_examples=60, deadline=None)
def test_nobody_starves_and_silence_is_treated_fairly(story: list[Any]) -> None:
    play(story)


@given(_story)
@settings(max_examples=40, deadline=None)
def test_no_core_is_idle_that_somebody_could_use(story: list[Any]) -> None:
    """Where everybody can use all; where not, as soon as that was seen."""
    machine = play([{**what, "wants": CORES} if isinstance(what, dict) else what for what in story])
    if machine.tenants:
        tenants = machine.tenants.values()
        assert sum(max_min(CORES, [min(t.wants, t.limit) for t in tenants])) == pytest.approx(CORES)
    machine = play(story)
    for _ in range(4 * len(machine.tenants)):
        machine.interval({})
    tenants = machine.tenants.values()
    used = sum(max_min(CORES, [min(t.wants, t.limit) for t in tenants]))
    assert used >= 0.85 * min(CORES, sum(t.wants for t in tenants))


@given(_story, st.integers(-4, 4))
@settings(max_examples=40, deadline=None)
def test_the_unit_of_time_changes_no_decision(story: list[Any], power: int) -> None:
    """Powers of two, so that not even rounding differs, but for the forgiveness of clocks."""
    one, other = play(story), play(story, 2.0**power)
    assert [a.limits for _, a in one.answers] == [pytest.approx(a.limits, rel=1e-6) for _, a in other.answers]


@given(_story)
@settings(max_examples=30, deadline=None)
def test_equal_inputs_give_equal_decisions(story: list[Any]) -> None:
    assert play(story).answers == play(story).answers


@given(st.lists(st.tuples(st.floats(0.05, 20), st.floats(0.1, 4)), min_size=30, max_size=60))
@settings(max_examples=30, deadline=None)
def test_noise_does_not_make_limits_oscillate(noise: list[tuple[float, float]]) -> None:
    """Estimates and uses that go anywhere: in n looks limits are lowered at most √(2n) times, and one."""
    machine = Machine(Shortest(LOOK, FLOOR), CORES)
    for job in (1, 2, 3):
        machine.arrive(job, work=1e6)
    lowered = 0
    for k, (off, wants) in enumerate(noise):
        tenant = machine.tenants[JobId(k % 3 + 1)]
        tenant.off, tenant.wants = off, wants
        before = {job: min(t.limit, CORES) for job, t in machine.tenants.items()}
        machine.interval({})
        lowered += any(min(t.limit, CORES) < 0.99 * before[job] for job, t in machine.tenants.items())
    assert lowered <= math.sqrt(2 * len(noise)) + 1
