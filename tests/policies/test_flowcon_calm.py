"""FlowCon's rules by hand-computed numbers, and what must hold whatever the containers report."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.share.flowcon_calm import FlowConCalm
from schedulearn.core.policies.sharing import Shares
from support.machine import Machine

NONE = math.inf


def converge(machine: Machine, *jobs: int, rounds: int = 5) -> None:
    """Rounds in which these have nothing more to learn: one that falls, then the same value again and again."""
    for i in range(rounds):
        machine.interval(dict.fromkeys(jobs, 2.0 if i == 0 else 1.0))


# --- lists


def test_a_container_is_measured_from_its_second_interval_on() -> None:
    machine = Machine(FlowConCalm(alpha=0.05, itval=20))
    assert machine.arrive(1) == Shares({}, wake_at=20.0)
    first = machine.interval({1: 9.0})
    assert (first.growth, machine.lists(), machine.limits()) == ({}, {1: "NL"}, {1: NONE})
    second = machine.interval({1: 5.0})
    # It moved over its whole range so far, 1, in 20 s, with all of the machine.
    assert second.growth == pytest.approx({1: 1 / 20})
    assert machine.lists() == {1: "NL"}, "not below alpha"
    third = machine.interval({1: 4.0})
    assert third.growth == pytest.approx({1: (5 - 4) / (9 - 4) / 20})
    assert machine.lists() == {1: "WL"}
    machine.interval({1: 3.9})
    assert machine.lists() == {1: "CL"}
    machine.interval({1: 1.0})  # 2.9 of 8 in 40 s: the interval had doubled
    assert machine.answers[-1][1].growth == pytest.approx({1: 2.9 / 8 / 40})
    assert machine.lists() == {1: "CL"}
    back = machine.interval({1: -150.0})
    assert back.growth == pytest.approx({1: 151 / 159 / 80})
    assert machine.lists() == {1: "CL"}


def test_the_largest_numbers_there_are_grow_as_small_ones_do() -> None:
    values = [1.7, -1.7, 1.0, 1.0, -0.5]
    machines = [Machine(FlowConCalm(itval=10)) for _ in range(2)]
    for machine, scale in zip(machines, (1.0, 1e308), strict=True):
        machine.arrive(1)
        machine.arrive(2)
        for value in values:
            machine.interval({1: value * scale, 2: 1.0 / (1 + machine.now)})
    small, large = ([answer.growth for _, answer in machine.answers] for machine in machines)
    assert len(small) == len(large)
    for one, other in zip(small, large, strict=True):
        assert other == pytest.approx(one)
    assert machines[0].lists() == machines[1].lists()


def test_what_grows_again_goes_back_to_the_new_ones() -> None:
    machine = Machine(FlowConCalm(alpha=0.02, itval=10))
    machine.arrive(1)
    converge(machine, 1)
    assert machine.lists() == {1: "CL"}
    machine.interval({1: 101.0})  # all of its range, after the interval had doubled to 40 s
    assert machine.lists() == {1: "NL"}
    assert machine.answers[-1][1].wake_at == machine.now + 10, "and it is looked at as often as before"


def test_growth_is_over_the_part_of_the_machine_that_was_used_for_it() -> None:
    machine = Machine(FlowConCalm(itval=20), cores=4.0)
    machine.arrive(1, wants=1.0)
    machine.interval({1: 2.0})
    assert machine.interval({1: 1.0}).growth == pytest.approx({1: (1 / 20) / (1 / 4)})


def test_an_interval_without_a_new_value_goes_on() -> None:
    machine = Machine(FlowConCalm(alpha=0.05, itval=20))
    machine.arrive(1)
    for value in (9.0, 5.0, 4.0):
        machine.interval({1: value})
    assert machine.lists() == {1: "WL"}
    for _ in range(5):
        assert machine.interval({1: None}).growth == {}
        assert machine.lists() == {1: "WL"}, "silence is not convergence"
    assert machine.interval({1: 3.0}).growth == pytest.approx({1: 1 / 6 / 120})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_silence(value: float) -> None:
    machine = Machine(FlowConCalm())
    machine.arrive(1)
    machine.interval({1: 2.0})
    assert machine.interval({1: value}).growth == {}


def test_a_constant_metric_does_not_grow_by_rounding() -> None:
    machine = Machine(FlowConCalm())
    machine.arrive(1)
    machine.interval({1: 0.1 + 0.2})
    assert machine.interval({1: 0.3}).growth == {1: 0.0}


def test_lists_change_only_after_a_full_interval() -> None:
    machine = Machine(FlowConCalm(alpha=0.05, itval=20))
    machine.arrive(1)
    machine.pass_time(15)
    machine.arrive(2)
    assert machine.answers[-1][1].wake_at == 20, "the round of those who were there is not put off"
    machine.pass_time(1)
    machine.report({1: 5.0, 2: 5.0})
    machine.pass_time(4)
    machine.look()
    kept = machine.memory["flowcon.containers"]
    assert (kept["1"]["value"], kept["2"]["value"]) == (5.0, None), "5 s are no interval"
    machine.interval({1: 1.0, 2: 4.0})
    assert machine.memory["flowcon.containers"]["2"]["value"] == 4.5, "25 s are: the mean of all that came in them"


def test_asking_again_in_between_changes_nothing() -> None:
    machine = Machine(FlowConCalm(itval=20))
    machine.arrive(1)
    machine.interval({1: 2.0})
    machine.pass_time(3)
    memory = machine.memory
    assert machine.look() == Shares({}, wake_at=40.0)
    assert machine.memory == memory


# --- limits


def two_with_one_complete(**params: Any) -> Machine:
    """VAE has converged when MNIST arrives."""
    machine = Machine(FlowConCalm(**params))
    machine.arrive(1)
    converge(machine, 1)
    assert machine.lists() == {1: "CL"}
    machine.arrive(2)
    return machine


def test_a_newcomer_has_the_machine_but_for_the_floor_of_those_who_complete() -> None:
    machine = two_with_one_complete()
    assert machine.limits() == {1: 0.25, 2: NONE}, "at once, as the experiments show it for two"
    assert machine.lists() == {1: "CL", 2: "NL"}
    assert two_with_one_complete(beta=5).limits() == {1: 0.1, 2: NONE}


def test_the_reaction_to_an_exit_is_at_once_too() -> None:
    machine = two_with_one_complete()
    machine.pass_time(1)
    assert machine.leave(2).limits == {1: NONE}


def test_with_three_the_floor_is_a_sixth() -> None:
    machine = two_with_one_complete()
    machine.arrive(3)
    assert machine.limits() == pytest.approx({1: 1 / 6, 2: NONE, 3: NONE})


def test_what_completes_has_its_part_of_all_growth_if_that_is_more() -> None:
    machine = two_with_one_complete(alpha=0.05, itval=20)
    machine.interval({1: 1.0, 2: 9.0})
    answer = machine.interval({1: 1.2, 2: 1.0})
    # 1: a fifth of its range in 20 s with 0.25 of the machine; 2: all of its range with 0.75 of it.
    assert answer.growth == pytest.approx({1: 0.04, 2: 1 / 15})
    assert machine.lists() == {1: "CL", 2: "NL"}
    assert machine.limits() == pytest.approx({1: 0.04 / (0.04 + 1 / 15), 2: NONE})


def test_it_makes_way_for_somebody_of_whom_nothing_is_known() -> None:
    """Also if it is the only one whose growth is known."""
    machine = Machine(FlowConCalm())
    machine.arrive(1)
    for value in (9.0, 3.0, 2.9, 2.8):
        machine.interval({1: value})
    assert machine.lists() == {1: "CL"}
    assert machine.arrive(2).limits == {1: 0.25}


def test_parameters_change_while_it_runs() -> None:
    machine = two_with_one_complete(alpha=0.05)
    machine.stage = FlowConCalm(alpha=0.001, itval=40, beta=4)  # as by `policy set --param`
    machine.interval({1: 1.0, 2: 9.0})
    assert machine.lists() == {1: "CL", 2: "NL"}, "what is known of them is kept"
    assert machine.answers[-1][1].wake_at == machine.now + 40
    assert machine.limits()[1] == 0.125


@pytest.mark.parametrize(("growing", "limits"), [("full", {1: NONE, 2: NONE}), ("proportional", {1: 0.25, 2: 0.8})])
def test_what_grows_has_all_or_its_part_of_all_growth(growing: str, limits: dict[int, float]) -> None:
    machine = Machine(FlowConCalm(alpha=0.001, itval=10, growing=growing))
    machine.arrive(1)
    machine.arrive(2)
    machine.interval({1: 0.0, 2: 0.0})
    machine.interval({1: 8.0, 2: 8.0})
    answer = machine.interval({1: 8.0 + 8 / 3, 2: 0.0})
    # A quarter of its range, and all of it, each with half of the machine: a fifth and four fifths of all growth.
    assert answer.growth == pytest.approx({1: 0.25 / 10 / 0.5, 2: 1 / 10 / 0.5})
    assert machine.limits() == pytest.approx(limits), "the floor of two is a quarter"


def test_when_all_complete_nobody_is_limited_and_the_looks_get_rarer() -> None:
    machine = two_with_one_complete(itval=20, itval_cap=100)
    converge(machine, 1, 2, rounds=4)
    assert machine.lists() == {1: "CL", 2: "CL"}
    assert machine.limits() == {1: NONE, 2: NONE}
    waits = []
    for _ in range(4):
        machine.interval({1: 1.0, 2: 1.0})
        waits.append(machine.answers[-1][1].wake_at - machine.now)  # type: ignore[operator]
    assert waits == [80.0, 100.0, 100.0, 100.0]
    machine.pass_time(5)
    assert machine.arrive(3).wake_at == machine.now + 20, "an arrival ends that"


def test_what_a_newcomer_leaves_is_given_out_again() -> None:
    """LSTM-CFC uses a fifth of the machine: the rest is for the one that completes, limit or not."""
    machine = Machine(FlowConCalm())
    machine.arrive(1)
    converge(machine, 1)
    machine.arrive(2, wants=0.2)
    assert machine.limits()[1] == 0.25, "nothing is known of it yet"
    machine.interval({1: 1.0, 2: None})
    assert machine.limits()[1] == pytest.approx(0.8)
    machine.interval({1: 1.0, 2: None})
    assert machine.limits()[1] == pytest.approx(0.8)
    machine.tenants[2].wants = 1.0  # type: ignore[index]
    machine.interval({1: 1.0, 2: None})
    assert machine.limits()[1] == 0.25, "if it wants more after all, it has it"


def test_what_a_lease_guarantees_goes_before_the_floor_of_others() -> None:
    machine = Machine(FlowConCalm(), cores=8.0)
    for job in range(1, 8):
        machine.arrive(job, least=0.1)
    machine.arrive(8, least=6.0)
    shares = max_min(8.0, [min(8.0, limit) for limit in machine.limits().values()])
    assert shares[-1] >= 6.0 - 1e-9
    assert all(share >= 0.1 for share in shares)


def test_a_job_that_starts_again_is_new() -> None:
    machine = two_with_one_complete()
    machine.tenants.pop(1)
    machine.arrive(1)
    assert machine.lists() == {1: "NL", 2: "NL"}


def test_an_empty_machine_is_forgotten() -> None:
    machine = two_with_one_complete()
    machine.leave(1)
    assert machine.leave(2) == Shares()
    assert machine.memory == {}


# --- whatever they report

_value = st.one_of(st.none(), st.integers(-256, 256).map(lambda n: n / 64))
_round = st.one_of(
    st.lists(_value, min_size=5, max_size=5),
    st.sampled_from(["arrive", "leave"]),
)
_story = st.lists(_round, min_size=3, max_size=25)
_params = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.001, 0.01, 0.03, 0.05, 0.1]),
        "itval": st.sampled_from([10, 16, 32]),
        "growing": st.sampled_from(["full", "proportional"]),
        "beta": st.sampled_from([1.0, 2.0, 4.0]),
    }
)


SIZES: list[dict[str, float]] = [{}, {"wants": 0.5}, {"least": 1.0}, {"most": 2.0}, {"least": 0.1}]


class Story:
    """Containers that come, go and report, the same in every telling but for the unit of what they report."""

    def __init__(self, params: Any, rounds: Any, scale: float = 1.0, shift: float = 0.0, *, sizes: Any = SIZES) -> None:
        self.machine = Machine(FlowConCalm(**params), cores=4.0)
        self._beta, self._sizes, self._next = params["beta"], sizes, 1
        for _ in range(2):
            self._arrive()
        for what in rounds:
            if what == "arrive":
                if len(self.machine.tenants) < 5:
                    self.machine.pass_time(3)
                    self._arrive()
            elif what == "leave":
                if len(self.machine.tenants) > 1:
                    self.machine.pass_time(3)
                    self.machine.leave(min(self.machine.tenants))
            else:
                told = dict(zip(map(int, self.machine.tenants), what, strict=False))
                self.machine.interval({job: v if v is None else v * scale + shift for job, v in told.items()})
            self.check()

    def _arrive(self) -> None:
        self.machine.arrive(self._next, **self._sizes[self._next % len(self._sizes)])
        self._next += 1

    def check(self) -> None:
        """Never below the floor, and all that is guaranteed fits."""
        m, part = self.machine, self.machine.cores / (self._beta * len(self.machine.tenants))
        tenants = list(m.tenants.values())
        caps = [min(t.limit, t.most) for t in tenants]
        floors = [max(t.least, min(t.most, part)) for t in tenants]
        if sum(floors) > m.cores:  # what leases guarantee goes before the floor of others
            floors = [t.least for t in tenants]
        assert all(cap >= floor - 1e-9 for cap, floor in zip(caps, floors, strict=True))
        uses = max_min(m.cores, [min(cap, t.wants) for cap, t in zip(caps, tenants, strict=True)])
        assert all(use >= min(t.least, t.wants) - 1e-9 for use, t in zip(uses, tenants, strict=True))
        if all(t.wants >= t.most for t in tenants):
            wanted = min(m.cores, sum(t.most for t in tenants))
            assert sum(uses) == pytest.approx(wanted), "nothing is left unused"

    def decisions(self) -> list[tuple[float, dict[Any, float], float | None]]:
        return [(now, dict(answer.limits), answer.wake_at) for now, answer in self.machine.answers]

    def notes(self) -> list[Any]:
        return [note for _, answer in self.machine.answers for note in answer.notes]


@given(_params, _story, st.integers(-6, 6), st.integers(-1000, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_unit_and_the_zero_of_a_metric_change_no_decision(
    params: Any, story: Any, power: int, shift: int, turned: bool
) -> None:
    """Powers of two and whole numbers, so that not even rounding differs."""
    one = Story(params, story)
    other = Story(params, story, (-1.0 if turned else 1.0) * 2.0**power, float(shift))
    assert one.decisions() == other.decisions()
    assert one.machine.lists() == other.machine.lists()


@given(_params, _story, st.floats(1e-4, 1e4), st.floats(-100, 100))
@settings(max_examples=40, deadline=None)
def test_nor_does_any_other_unit(params: Any, story: Any, scale: float, shift: float) -> None:
    one = Story(params, story)
    growths = [growth for _, answer in one.machine.answers for growth in answer.growth.values()]
    assume(all(abs(growth / params["alpha"] - 1) > 1e-6 for growth in growths))
    assert Story(params, story, scale, shift).machine.lists() == one.machine.lists()


@given(_params, _story)
@settings(max_examples=40, deadline=None)
def test_a_job_without_any_metric_is_never_throttled(params: Any, story: Any) -> None:
    silent = [[None, *what[1:]] if isinstance(what, list) else what for what in story if what != "leave"]
    machine = Story(params, silent, sizes=[{}, {"wants": 0.5}]).machine
    assert machine.lists()[1] == "NL"
    assert all(1 not in answer.limits for _, answer in machine.answers)


@given(_params, _story)
@settings(max_examples=40, deadline=None)
def test_every_change_is_a_note_that_can_be_checked_by_hand(params: Any, story: Any) -> None:
    told = Story(params, story)
    lists: dict[Any, str] = {}
    limits: dict[Any, float | None] = {}
    for note in told.notes():
        data: Any = note.data
        if note.kind == "share_list":
            assert lists.get(note.job, "NL") == data["from"] != data["to"]
            lists[note.job] = data["to"]
            span = data["highest"] - data["lowest"]
            gain = abs(data["after"] - data["before"]) / span if span else 0.0
            growth = gain / data["seconds"] / max(1e-3, data["cores"] / data["machine"])
            assert growth == pytest.approx(data["growth"])
            assert (data["to"] == "NL") == (data["growth"] >= data["alpha"])
        elif note.kind == "share_limit":
            assert limits.get(note.job) == data["before"] != data["after"]
            limits[note.job] = data["after"]
    machine = told.machine
    assert machine.lists() == {job: lists.get(job, "NL") for job in map(int, machine.tenants)}
    assert machine.limits() == {job: limits.get(job) or NONE for job in map(int, machine.tenants)}


@given(_params, _story)
@settings(max_examples=20, deadline=None)
def test_equal_inputs_give_equal_decisions(params: Any, story: Any) -> None:
    one, again = Story(params, story), Story(params, story)
    assert one.machine.answers == again.machine.answers


@given(_params, st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=20, max_size=60))
@settings(max_examples=30, deadline=None)
def test_noise_does_not_make_limits_oscillate(params: Any, noise: Any) -> None:
    """Whatever comes in, in n rounds a limit turns round at most √(2n) times."""
    machine = Machine(FlowConCalm(**params))
    for job in (1, 2, 3):
        machine.arrive(job)
    for values in noise:
        machine.interval({job: values[job - 1] for job in (1, 2, 3)})
    for job in (1, 2, 3):
        seen = [1.0]
        for _, answer in machine.answers:
            if job in answer.limits:
                seen.append(min(1.0, answer.limits[job]))  # type: ignore[index]
        steps = [b - a for a, b in pairwise(seen)]
        turns = sum(a * b < 0 for a, b in pairwise(steps))
        assert turns <= math.sqrt(2 * len(noise)) + 1
        assert len(steps) <= 2 * len(noise) ** 0.5 * 3
