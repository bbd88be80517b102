"""FlowCon as it was published, by hand-computed numbers."""

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.share.flowcon import ONE_AND_AN_NTH, FlowCon
from schedulearn.core.policies.sharing import Shares
from support.machine import Machine

NONE = math.inf


def one(**params: Any) -> Machine:
    machine = Machine(FlowCon(**params))
    machine.arrive(1)
    return machine


def reported(machine: Machine, seconds: float, values: dict[int, float | None]) -> None:
    """Time passes, and they report in the middle of it."""
    machine.pass_time(seconds / 2)
    machine.report(values)
    machine.pass_time(seconds / 2)


# --- growth


def test_growth_is_by_the_latest_value_then_and_now_as_a_part_of_the_largest() -> None:
    machine = one()
    assert machine.interval({1: 10.0}).growth == {}, "one value tells nothing"
    assert machine.lists() == {1: "NL"}
    machine.pass_time(5)
    machine.report({1: 5.0})
    assert machine.interval({1: 8.0}).growth == pytest.approx({1: (10 - 8) / 10 / 20}), "not the mean, which is 6.5"
    assert machine.interval({1: -20.0}).growth == pytest.approx({1: 28 / 20 / 20})


def test_a_newcomer_is_measured_at_the_next_run_from_its_first_value_on() -> None:
    machine = one()
    machine.pass_time(1)
    machine.report({1: 10.0})
    assert machine.interval({1: 8.0}).growth == pytest.approx({1: (10 - 8) / 10 / 20})


def test_growth_is_over_the_part_of_the_machine_that_was_used_for_it() -> None:
    machine = Machine(FlowCon(), cores=4.0)
    machine.arrive(1, wants=1.0)
    machine.pass_time(1)
    machine.report({1: 10.0})
    assert machine.interval({1: 8.0}).growth == pytest.approx({1: (10 - 8) / 10 / 20 / (1 / 4)})


def test_growth_over_other_resources_is_shown_where_they_are_measured() -> None:
    machine = one()
    machine.pass_time(1)
    machine.report({1: 10.0})
    machine.tenants[1].other = {"memory": 200.0, "block": 40.0}  # type: ignore[index]
    machine.interval({1: 8.0})
    machine.tenants[1].other = {"memory": 100.0, "block": 60.0}  # type: ignore[index]
    machine.interval({1: 7.5})
    first, second = (note.data["others"] for _, answer in machine.answers for note in answer.notes if note.job == 1)
    assert first == pytest.approx({"memory": 0.2 / 20 / 200, "block": 0.2 / 20 / (40 / 20)})
    assert second == pytest.approx({"memory": 0.05 / 20 / 100, "block": 0.05 / 20 / (20 / 20)})


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_silence_is_not_convergence(value: float | None) -> None:
    machine = one(alpha=0.05)
    machine.pass_time(1)
    machine.report({1: 10.0})
    machine.interval({1: 9.9})
    assert machine.lists() == {1: "WL"}
    assert machine.interval({1: value}).growth == {}
    assert machine.lists() == {1: "WL"}


# --- lists


def test_lists_move_when_a_job_comes() -> None:
    """Algorithm 2 interrupts the interval, and runs all of Algorithm 1."""
    machine = one(alpha=0.05, itval=30)
    machine.pass_time(1)
    machine.report({1: 1.0})
    machine.interval({1: 0.99})
    assert (machine.now, machine.lists()) == (30.0, {1: "WL"})
    reported(machine, 10, {1: 0.98})
    answer = machine.arrive(2)
    assert machine.lists() == {1: "CL", 2: "NL"}
    assert machine.limits() == {1: 0.25, 2: NONE}
    assert answer.wake_at == 70.0, "a whole interval from now on"


def test_and_when_one_leaves() -> None:
    machine = one(alpha=0.05, itval=30)
    machine.arrive(2)
    reported(machine, 10, {1: 1.0, 2: 1.0})
    reported(machine, 10, {1: 0.99, 2: 0.5})
    machine.leave(2)
    assert machine.lists() == {1: "WL"}
    reported(machine, 30, {1: 0.98})
    machine.look()
    assert machine.lists() == {1: "CL"}


def test_whoever_grows_again_is_new() -> None:
    machine = one(alpha=0.02, itval=10)
    machine.pass_time(1)
    machine.report({1: 1.0})
    machine.interval({1: 1.0})
    machine.interval({1: 1.0})
    assert machine.lists() == {1: "CL"}
    machine.interval({1: 10.0})
    assert machine.lists() == {1: "NL"}


def test_when_all_complete_nobody_is_limited_and_the_interval_doubles_until_somebody_comes() -> None:
    machine = one(alpha=0.05, itval=20, itval_cap=100)
    machine.pass_time(1)
    machine.report({1: 1.0})
    waits = []
    for _ in range(6):
        machine.interval({1: 1.0})
        waits.append(machine.answers[-1][1].wake_at - machine.now)  # type: ignore[operator]
    assert waits == [20.0, 40.0, 80.0, 100.0, 100.0, 100.0]
    machine.interval({1: 99.0})
    assert machine.lists() == {1: "CL"}, "0.98 of the largest, in 100 s"
    machine.pass_time(5)
    assert machine.arrive(2).wake_at == machine.now + 20


def test_growing_again_does_not_bring_the_interval_back() -> None:
    machine = one(alpha=0.001, itval=20)
    machine.pass_time(1)
    machine.report({1: 1.0})
    for value in (1.0, 1.0, 9.0):
        machine.interval({1: value})
    assert machine.lists() == {1: "NL"}
    assert machine.answers[-1][1].wake_at == machine.now + 40


# --- limits


def complete_and_new(**params: Any) -> Machine:
    """One has converged when others arrive."""
    machine = one(**params)
    machine.pass_time(1)
    machine.report({1: 1.0})
    machine.interval({1: 1.0})
    machine.interval({1: 1.0})
    assert machine.lists() == {1: "CL"}
    machine.arrive(2)
    return machine


@pytest.mark.parametrize(
    ("beta", "two", "three"), [(2, 1 / 4, 1 / 6), (4.0, 1 / 8, 1 / 12), (ONE_AND_AN_NTH, 1 / 3, 1 / 4)]
)
def test_the_floor_of_those_who_complete(beta: float | str, two: float, three: float) -> None:
    machine = complete_and_new(beta=beta)
    assert machine.limits() == pytest.approx({1: two, 2: NONE})
    machine.arrive(3)
    assert machine.limits() == pytest.approx({1: three, 2: NONE, 3: NONE})


def test_beta_is_a_number_or_this_expression() -> None:
    assert build_policy("flowcon", params={"beta": "1+1/n"}).share._beta == ONE_AND_AN_NTH  # type: ignore[union-attr]
    assert build_policy("flowcon", params={"beta": "1.5"}).share._beta == 1.5  # type: ignore[union-attr]


def test_what_completes_has_its_part_of_all_growth_if_that_is_more() -> None:
    machine = complete_and_new(alpha=0.045, itval=20)
    machine.pass_time(1)
    machine.report({2: 1.0})
    answer = machine.interval({1: 0.8, 2: 0.1})
    # 1: a fifth of its largest in 20 s with a quarter of the machine; 2: nine tenths with the rest.
    assert answer.growth == pytest.approx({1: 0.2 / 20 / 0.25, 2: 0.9 / 20 / 0.75})
    assert machine.lists() == {1: "CL", 2: "NL"}
    assert machine.limits() == pytest.approx({1: 0.04 / (0.04 + 0.06), 2: NONE})


def test_a_watched_container_keeps_its_limit() -> None:
    machine = complete_and_new(alpha=0.05, itval=20)
    machine.pass_time(1)
    machine.report({2: 1.0})
    machine.interval({1: 1.0, 2: 0.9})
    assert machine.lists() == {1: "CL", 2: "WL"}
    assert machine.limits()[2] == NONE
    machine.interval({1: 1.0, 2: 0.89})
    assert machine.lists() == {1: "CL", 2: "CL"}
    machine.arrive(3)
    assert machine.limits() == pytest.approx({1: 1 / 6, 2: 1 / 6, 3: NONE})
    machine.report({3: 1.0})
    machine.pass_time(1)
    machine.report({3: 0.9})
    machine.leave(1)
    assert machine.lists() == {2: "CL", 3: "NL"}
    machine.interval({2: 0.89, 3: 0.89})
    assert machine.lists() == {2: "CL", 3: "WL"}
    assert machine.limits()[3] == NONE


@pytest.mark.parametrize(("growing", "limits"), [("full", {1: NONE, 2: NONE}), ("proportional", {1: 0.25, 2: 0.8})])
def test_what_grows_has_all_or_its_part_of_all_growth(growing: str, limits: dict[int, float]) -> None:
    machine = Machine(FlowCon(alpha=0.001, itval=10, growing=growing))
    machine.arrive(1)
    machine.arrive(2)
    machine.pass_time(1)
    machine.report({1: 8.0, 2: 8.0})
    answer = machine.interval({1: 6.0, 2: 0.0})
    assert answer.growth == pytest.approx({1: 0.25 / 10 / 0.5, 2: 1 / 10 / 0.5})
    assert machine.limits() == pytest.approx(limits), "a fifth of all growth is less than the floor of two, a quarter"


def test_what_a_newcomer_leaves_is_given_out_again() -> None:
    """Limits are soft: LSTM-CFC uses a fifth of the machine, and the rest is for the one that completes."""
    machine = one()
    machine.pass_time(1)
    machine.report({1: 1.0})
    machine.interval({1: 1.0})
    machine.interval({1: 1.0})
    machine.arrive(2, wants=0.2)
    assert machine.limits()[1] == 0.25, "nothing is known of it yet"
    machine.interval({1: 1.0, 2: None})
    assert machine.limits()[1] == pytest.approx(0.8)


def test_parameters_change_while_it_runs() -> None:
    machine = complete_and_new(beta=2)
    machine.stage = FlowCon(alpha=0.001, itval=40, beta=4)  # as by `policy set --param`
    answer = machine.look()
    assert machine.limits()[1] == 0.125
    assert answer.wake_at == machine.now + 40


def test_asking_again_in_between_changes_nothing() -> None:
    machine = complete_and_new()
    machine.pass_time(3)
    memory, wake = machine.memory, machine.answers[-1][1].wake_at
    assert machine.look() == Shares({}, wake_at=wake)
    assert machine.memory == memory


def test_an_empty_machine_is_forgotten() -> None:
    machine = complete_and_new()
    machine.leave(1)
    assert machine.leave(2) == Shares()
    assert machine.memory == {}


# --- whatever they report

_value = st.one_of(st.none(), st.integers(-256, 256).map(lambda n: n / 64))
_round = st.one_of(st.lists(_value, min_size=4, max_size=4), st.sampled_from(["arrive", "leave"]))
_story = st.lists(_round, min_size=3, max_size=20)
_params = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.001, 0.01, 0.05]),
        "itval": st.sampled_from([10, 32]),
        "growing": st.sampled_from(["full", "proportional"]),
        "beta": st.sampled_from([1.0, 2.0, ONE_AND_AN_NTH]),
    }
)


def told(params: Any, story: Any, scale: float = 1.0) -> Machine:
    machine = Machine(FlowCon(**params), cores=4.0)
    number = 0
    for what in ("arrive", "arrive", *story):
        if what == "arrive":
            number += 1
            machine.pass_time(3)
            machine.arrive(number, wants=4.0 if number % 3 else 0.5)
        elif what == "leave" and len(machine.tenants) > 1:
            machine.pass_time(3)
            machine.leave(min(machine.tenants))
        elif isinstance(what, list):
            values = dict(zip(map(int, machine.tenants), what, strict=False))
            machine.interval({job: v if v is None else v * scale for job, v in values.items()})
        check(machine, params["beta"])
    return machine


def check(machine: Machine, beta: Any) -> None:
    """None is below the floor, and what the others leave under their limits stays unused for one interval at most."""
    n, limits = len(machine.tenants), list(machine.limits().values())
    factor = 1 + 1 / n if beta == ONE_AND_AN_NTH else beta
    assert all(limit >= 4.0 / (factor * n) - 1e-9 for limit in limits)
    if all(tenant.wants == 4.0 for tenant in machine.tenants.values()):
        assert sum(max_min(4.0, [min(4.0, limit) for limit in limits])) == pytest.approx(4.0)


@given(_params, _story, st.integers(-6, 6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_unit_of_a_metric_changes_no_decision(params: Any, story: Any, power: int, turned: bool) -> None:
    first, other = told(params, story), told(params, story, (-1.0 if turned else 1.0) * 2.0**power)
    assert [dict(answer.limits) for _, answer in first.answers] == [dict(answer.limits) for _, answer in other.answers]


@given(_params, _story)
@settings(max_examples=40, deadline=None)
def test_a_job_without_any_metric_is_never_throttled(params: Any, story: Any) -> None:
    assume("leave" not in story)
    machine = told(params, [[None, *what[1:]] if isinstance(what, list) else what for what in story])
    assert machine.lists()[1] == "NL"
    assert all(1 not in answer.limits for _, answer in machine.answers)
