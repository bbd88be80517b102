"""What must hold whatever happens, for every preset."""

from copy import deepcopy

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedulearn.core.control.decide import decide
from schedulearn.core.control.hysteresis import Hysteresis
from schedulearn.core.control.restore import restore
from schedulearn.core.policies.catalogue.presets import PRESETS
from support.builders import OK, World, job, leases_of, node
from support.facts import AssumedFacts
from support.walks import check, do

_sizes = st.tuples(st.integers(0, 4), st.sampled_from([0.5, 1, 2]), st.integers(1, 3), st.integers(0, 2))
_submit = st.tuples(st.just("submit"), _sizes)
_kinds = (
    "exit",
    "fail",
    "lose",
    "cancel",
    "delete",
    "pause",
    "resume",
    "start",
    "wait",
    "still",
    "drain",
    "move",
    "node",
    "leave",
    "one fails",
    "good",
)
_act = st.tuples(st.sampled_from(_kinds), st.integers(0, 30))
_steps = st.lists(st.one_of(_submit, _act), max_size=60)
_clusters = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), min_size=1, max_size=4)


def _nothing_idle(w: World) -> None:
    """Whoever still waits really does not fit."""
    hysteresis = Hysteresis(w.state, w.now)  # who has just lost a worker does not grow yet
    decision = decide(w.policy, w.state.queue, w.state.ledger, w.state.adjustable, w.now, w.memory, (), hysteresis)
    assert decision.grants == [], "the decision before left something that fits"


def _world(cluster: list[tuple[int, int]], preset: str) -> World:
    nodes = [node(f"n{i}", cpus=cpus, gpus=gpus) for i, (cpus, gpus) in enumerate(cluster)]
    return World(*nodes, policy=preset, params=without_guard(preset))


def without_guard(preset: str) -> dict[str, str]:
    """Reservations are allowed to leave slots idle: they are switched off where idle slots are looked at."""
    return {"starvation_guard": "off"} if PRESETS[preset].allocate == "rigid" else {}


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=150, deadline=None)
def test_ledger_and_states_hold_whatever_happens(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, preset)
    numbers: list[int] = []
    for step in steps:
        do(w, step, numbers)
        check(w)


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
# The first fits by the number of slots, but has no place: what it would have got must go to the others.
@example([(1, 3)], [("submit", (1, 0.5, 3, 0)), *[("submit", (1, 0.5, 1, 1))] * 3], "ffdl")
@settings(max_examples=100, deadline=None)
def test_no_slot_stays_idle_that_a_waiting_job_could_use(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, preset)
    numbers: list[int] = []
    for step in steps:
        do(w, step, numbers)
        _nothing_idle(w)


@given(_clusters, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=60, deadline=None)
def test_equal_inputs_give_equal_decisions_and_deciding_changes_nothing(cluster, steps, preset) -> None:  # type: ignore[no-untyped-def]
    one, two = _world(cluster, preset), _world(cluster, preset)
    first: list[int] = []
    second: list[int] = []
    for step in steps:
        do(one, step, first)
        decide(two.policy, two.state.queue, two.state.ledger, two.state.adjustable, two.now, deepcopy(two.memory))
        do(two, step, second)
        assert [(e.kind, e.job, e.cause) for e in one.history] == [(e.kind, e.job, e.cause) for e in two.history]
        assert one.memory == two.memory


@given(_clusters, _steps)
@settings(max_examples=60, deadline=None)
def test_a_restart_decides_the_same(cluster, steps) -> None:  # type: ignore[no-untyped-def]
    w = _world(cluster, "round-robin")
    numbers: list[int] = []
    for step in steps:
        do(w, step, numbers)
    nodes = [n.node for n in w.state.ledger]
    again = restore(
        w.policy.order,
        AssumedFacts(),
        deepcopy(list(w.state.jobs.values())),
        deepcopy(list(w.state.attempts.values())),
        list(leases_of(w.state).values()),
        nodes,
        deepcopy(w.memory),
        w.now,
    )
    assert sorted(j.id for j in again.queue) == sorted(j.id for j in w.state.queue)
    assert again.waits_for == {k: v for k, v in w.state.waits_for.items() if k in w.state.jobs}
    plans = [decide(w.policy, s.queue, s.ledger, s.adjustable, w.now, deepcopy(w.memory)) for s in (w.state, again)]
    assert plans[0].grants == plans[1].grants
    assert plans[0].memory == plans[1].memory


@given(st.lists(_sizes, min_size=1, max_size=25), st.sampled_from(sorted(PRESETS)))
@settings(max_examples=60, deadline=None)
def test_every_job_that_fits_somewhere_is_run_in_the_end(sizes, preset) -> None:  # type: ignore[no-untyped-def]
    w = World(node("n0", cpus=8, gpus=4), node("n1", cpus=8, gpus=4), policy=preset)
    wanted = []
    for number, (gpus, cpus, workers, _) in enumerate(sizes, 1):
        if gpus * workers <= 4:
            wanted.append(job(number, gpus=gpus, cpus=cpus, workers=workers))
    w.submit(*wanted)
    for _ in range(len(wanted)):
        w.settle()
        if w.running():
            w.now += 100
            w.exited(w.running()[0], OK)
    assert {e.job for e in w.history if e.state == "succeeded"} == {j.id for j in wanted}
