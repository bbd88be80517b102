"""`consolidate`: when it moves whom, worked out by hand, and that it pays in a simulated cluster."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.control.migrate import Board
from schedulearn.core.control.state import State
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.migrate.consolidate import Consolidate
from schedulearn.core.policies.migrate.repack import Repack
from schedulearn.core.policies.stages import Moves
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.traces.types import TraceJob, Workload
from support.builders import job, node


class Known:
    """What is known of every job alike, but for its remaining time."""

    steady = True

    def __init__(self, penalty: float, cost: float, remaining: Mapping[int, float]) -> None:
        self._penalty, self._cost, self._remaining = penalty, cost, remaining

    def remaining(self, job: Job, now: float) -> float:
        return self._remaining.get(job.id, math.inf)

    def estimate(self, job: Job, now: float) -> None:
        return None

    def duration(self, job: Job) -> float:
        return math.inf

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(8)

    def restart_cost(self, job: Job) -> float:
        return self._cost

    def locality_penalty(self, job: Job) -> float:
        return self._penalty

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        return None


def placed(nodes: Sequence[Node], where: Mapping[int, str], facts: Known, **more: Any) -> State:
    """Jobs with a GPU for each worker, placed as said: `{1: "ab"}` has its two workers on a and b."""
    state = State(build_policy().order, facts, nodes)
    for number, names in where.items():
        one = job(number, gpus=1, cpus=0, workers=len(names), **{"preemptible": Preemptible.YES, **more})
        one.state = JobState.RUNNING
        state.jobs[one.id] = one
        placements = []
        for name in names:
            ledger = state.ledger.node(NodeName(name))
            assert ledger
            placements.append(Placement(NodeName(name), ledger.pick_devices(one.shape)))
            state.ledger.take(one.shape, placements[-1])
        one.placements = tuple(placements)
        state.attempts[one.id] = None  # type: ignore[assignment] # only its key is asked for
    return state


def asked(state: State, stage: Consolidate | None = None, now: float = 0.0, memory: Any = None) -> dict[int, str]:
    """Who moves where."""
    answer = (stage or Consolidate()).migrate(Board(state, now), {} if memory is None else memory)
    return {number: "".join(sorted(names)) for number, names in answer.to.items()}


TWO = (node("a", gpus=2), node("b", gpus=2))

# Job 1 is on both nodes and has R seconds left if it were on one; apart it needs R / (1 - penalty).
# To bring it together it moves, and job 2 or 3, which hold the other GPUs, moves too: two moves.
RULE: list[Any] = [
    # (remaining, penalty, cost of a move, does it move?)
    (900, 0.25, 149, True),  # 1200 - 900 = 300 s are saved, the two moves cost 298
    (900, 0.25, 150, False),  # 300 is not more than 300
    (900, 0.25, 0, True),
    (900, 0.0, 0, False),  # nothing is lost by being apart, so nothing is saved
    (90, 0.5, 44, True),  # 180 - 90 = 90, more than 88
    (90, 0.5, 46, False),  # but less than 92
]


@pytest.mark.parametrize(("remaining", "penalty", "cost", "moves"), RULE)
def test_only_if_it_saves_more_than_it_costs(remaining: float, penalty: float, cost: float, moves: bool) -> None:
    facts = Known(penalty, cost, {1: remaining, 2: 50.0, 3: 50.0})
    found = asked(placed(TWO, {1: "ab", 2: "a", 3: "b"}, facts))
    assert bool(found) is moves
    if moves:
        assert len(found) == 2
        assert found[1] in ("aa", "bb"), "it is together"


def test_the_fewest_move() -> None:
    """Job 1 goes to b, where one of its workers and nobody else is; job 2 stays on a."""
    nodes = (node("a", gpus=2), node("b", gpus=2), node("c", gpus=2))
    facts = Known(0.25, 10, {1: 900.0, 2: 900.0, 3: 900.0})
    assert asked(placed(nodes, {1: "ab", 2: "a", 3: "cc"}, facts)) == {1: "bb"}


FOUR = tuple(node(name, gpus=2) for name in "abcd")
APART = {1: "ab", 2: "a", 3: "b", 4: "c", 5: "d"}


@pytest.mark.parametrize("solver", ["branch-and-bound", "genetic"])
def test_other_solvers_move_only_who_is_in_the_way(solver: str) -> None:
    facts = Known(0.25, 10, dict.fromkeys(APART, 9000.0))
    assert len(asked(placed(FOUR, APART, facts), Consolidate())) > 2, "hungarian packs those who are alone, too"
    found = asked(placed(FOUR, APART, facts), Consolidate(solver=solver))
    assert found in ({1: "aa", 2: "b"}, {1: "bb", 3: "a"})


def test_it_says_if_the_search_was_cut_short() -> None:
    facts = Known(0.25, 10, dict.fromkeys(APART, 9000.0))
    state = placed(FOUR, APART, facts)
    for states, is_cut in ((1, True), (20_000, False)):
        answer = Consolidate(solver="branch-and-bound", states=states).migrate(Board(state, 0.0), {})
        assert answer.to
        assert ("cut short" in answer.why) is is_cut


# --- repack (Voda)


def test_voda_packs_whenever_sizes_have_changed_and_asks_nothing() -> None:
    """Job 1 has nothing to gain, and moves all the same."""
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.0, 1e6, {1: 1.0}))
    memory: dict[str, Any] = {}
    first = Repack().migrate(Board(state, 100.0), memory)
    assert {number: "".join(names) for number, names in first.to.items()} in ({1: "aa", 2: "b"}, {1: "bb", 3: "a"})
    assert "2 workers move" in first.why
    assert Repack().migrate(Board(state, 200.0), memory) == Moves(), "no size has changed since"
    state.jobs[JobId(3)].placements = ()
    assert Repack().migrate(Board(state, 129.0), memory) == Moves(wake_at=130.0), "not so soon again"
    assert Repack().migrate(Board(state, 130.0), memory).to


def test_voda_binds_to_the_nodes_where_fewest_move() -> None:
    nodes = (node("a", gpus=2), node("b", gpus=2), node("c", gpus=2))
    state = placed(nodes, {1: "ab", 2: "a", 3: "cc"}, Known(0.0, 0.0, {}))
    assert {n: "".join(names) for n, names in Repack().migrate(Board(state, 0.0), {}).to.items()} == {1: "bb"}


def test_the_preset_voda_keeps_jobs_together() -> None:
    """The jobs of `rows`, which want to be on one node, end sooner than with elastic-fifo."""
    options = SimOptions(restart_cost=1.0, locality_penalty=0.4)
    jobs = [replace(row, workers=(row.gpus, 2 * row.gpus)) for row in rows()]
    ends = {}
    for preset in ("elastic-fifo", "voda"):
        policy = build_policy(preset, {"place": "k8s-default"})
        result = Simulation(Workload("holes", jobs), parse_cluster("8x2"), policy, options).run()
        ends[preset] = result.summary()
    assert ends["elastic-fifo"]["migrations"] == 0 < ends["voda"]["migrations"]
    assert ends["voda"]["avg_jct"] < ends["elastic-fifo"]["avg_jct"]


@pytest.mark.parametrize("more", [{"preemptible": Preemptible.NO}, {"preemptible": Preemptible.AUTO}])
def test_who_must_not_move_does_not(more: Any) -> None:
    facts = Known(0.5, 0, {})
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, facts, **more)
    state.facts = Known(0.5, 0, {1: 1e6})
    assert asked(state) == {}


def test_who_must_not_move_is_moved_around() -> None:
    facts = Known(0.5, 0, {1: 1e6, 2: 1e6, 3: 1e6})
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, facts)
    state.jobs[JobId(2)].spec = job(2, preemptible=Preemptible.NO).spec
    assert asked(state) == {1: "bb", 3: "a"}


def test_at_most_every_five_minutes() -> None:
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.25, 1000, {1: 900.0}))
    stage, memory = Consolidate(), {}
    board = Board(state, 1000.0)
    assert stage.migrate(board, memory).wake_at is None, "it has looked, and it does not pay"
    state.facts = Known(0.25, 1, {1: 900.0})
    for now in (1000.0, 1299.0):
        answer = stage.migrate(Board(state, now), memory)
        assert (answer.to, answer.wake_at) == ({}, 1300.0)
    assert stage.migrate(Board(state, 1300.0), memory).to
    assert memory == {"consolidate.looked_at": 1300.0}


def test_nothing_is_solved_where_nobody_is_apart() -> None:
    state = placed(TWO, {1: "aa", 2: "b"}, Known(0.5, 0, {1: 1e6}))
    memory: dict[str, Any] = {}
    assert asked(state, memory=memory) == {}
    assert memory == {}, "that was no look"


def test_of_a_job_that_nothing_is_known_of_the_past_is_the_guess() -> None:
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.5, 50, {}))
    one = state.jobs[JobId(1)]
    for ran, moves in ((99.0, False), (101.0, True)):
        one.ran = one.ran._replace(value=ran)
        assert bool(asked(state)) is moves, "apart it needs twice as long"


def test_more_workers_than_it_wants_finish_sooner() -> None:
    """900 s at one worker are 900 / s(2) = 472.5 s at two; apart 630: 157.5 s are saved."""
    for cost, moves in ((78.0, True), (79.0, False)):
        state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.25, cost, {1: 900.0}))
        state.jobs[JobId(1)].shape = job(1, gpus=1, cpus=0, workers=(1, 1, 2)).shape
        assert bool(asked(state)) is moves


def test_what_it_believes_can_be_given() -> None:
    state = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.0, 0, {1: 900.0}))
    assert asked(state, Consolidate(locality_penalty=0.25))
    with pytest.raises(InvalidSpec, match=r"params\.locality_penalty"):
        build_policy("fifo", {"migrate": "consolidate"}, {"locality_penalty": 1})


def test_types_of_gpus_and_nodes_that_take_no_jobs_are_respected() -> None:
    nodes = (
        node("a", gpus=2, models=["X", "X"]),
        node("b", gpus=2, models=["Y", "Y"]),
        node("c", gpus=2, models=["X", "X"]),
    )
    facts = Known(0.5, 0, {1: 1e6, 2: 1e6, 3: 1e6})
    state = State(build_policy().order, facts, nodes)
    state = placed(nodes, {2: "a", 3: "c", 1: "ac"}, facts, gpu_type="X")
    found = asked(state)
    assert found[1] in ("aa", "cc"), "b has two free GPUs, but of another type"
    drained = placed(TWO, {1: "ab", 2: "a", 3: "b"}, Known(0.5, 0, {1: 1e6}))
    drained.ledger.set_node_state(NodeName("b"), node("x").state.DRAINING)
    assert asked(drained) == {}


def test_other_resources_must_fit_too() -> None:
    """Two workers would find two GPUs on b, but not the memory."""
    nodes = (node("a", gpus=2, memory=64e9), node("b", gpus=2, memory=48e9))
    state = placed(nodes, {1: "ab"}, Known(0.5, 0, {1: 1e6}), memory=32_000_000_000)
    assert asked(state) == {1: "aa"}
    state.ledger.take(job(9, memory=32_000_000_000, cpus=0).shape, Placement(NodeName("a")))
    assert asked(state) == {}


# --- in a cluster


def rows() -> Iterator[TraceJob]:
    """Small jobs that end soon leave holes; a job that needs two GPUs gets one on each of two nodes, and stays long."""
    for number in range(40):
        begin = number * 400.0
        yield TraceJob(f"{number}a", begin, 1300.0, 1)
        yield TraceJob(f"{number}b", begin, 100.0, 1)
        yield TraceJob(f"{number}c", begin + 10, 2000.0, 2)


def simulated(migrate: str, penalty: float, cost: float = 5.0) -> Result:
    stages = {"place": "k8s-default", "migrate": migrate}
    options = SimOptions(restart_cost=cost, locality_penalty=penalty)
    return Simulation(
        Workload("holes", list(rows())), parse_cluster("8x2"), build_policy("fifo", stages), options
    ).run()


def test_it_pays_with_a_locality_penalty_and_keeps_still_without() -> None:
    apart, together = (simulated(name, 0.4).summary() for name in ("none", "consolidate"))
    assert (apart["migrations"], apart["migration_seconds"]) == (0, 0)
    assert together["migrations"] > 0
    assert together["migration_seconds"] == 5.0 * together["migrations"]
    assert together["avg_jct"] < 0.95 * apart["avg_jct"]
    without = simulated("consolidate", 0.0)
    assert without.summary()["migrations"] == 0
    assert [one.ended for one in without.jobs] == [one.ended for one in simulated("none", 0.0).jobs]


def test_moves_that_cost_more_than_they_save_are_not_made() -> None:
    assert simulated("consolidate", 0.4, cost=1e6).summary()["migrations"] == 0
