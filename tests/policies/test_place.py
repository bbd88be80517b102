"""Place stages and their solvers: against tables worked out by hand, and against trying everything."""

import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.migrate import Board
from schedulearn.core.control.state import State
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Accrual, Job, Placement
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import JobSpec, WorkerResources, Workers
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.catalogue.registry import STAGES, stage
from schedulearn.core.policies.place.k8s_default import score as k8s_score
from schedulearn.core.policies.solvers import branch_and_bound, genetic, hungarian
from schedulearn.core.policies.solvers.problem import (
    Assignment,
    Piece,
    Problem,
    as_it_is,
    best_fit_decreasing,
    free_slots,
    lower_bound,
    moved_workers,
    score,
)
from schedulearn.core.policies.stages import Memory
from schedulearn.lab.sim.cluster import make_node
from support.builders import World, job, node
from support.facts import AssumedFacts

ALL = sorted(STAGES["place"])
ON_FEW_NODES = [name for name in ALL if name != "k8s-default"]


def shape_of(gpus: int = 1, **more: Any) -> Shape:
    """What a worker in a trace asks for: GPUs of any type and nothing else."""
    counts = Workers(1, 1, 1)
    asked = WorkerResources(gpus=gpus, cpus_min=more.pop("cpus", 0.0), cpus_max=8.0, **more)
    return Shape.of(JobSpec("job", "true", workers=counts, resources=asked))


def ledger(*free: int, of: int | None = None) -> Ledger:
    """Nodes a, b, c … with so many free GPUs; the rest of `of` is taken."""
    there = Ledger(make_node(i, of or gpus, "abcdefghijkl"[i]) for i, gpus in enumerate(free))
    for entry, gpus in zip(list(there), free, strict=True):
        for _ in range((of or gpus) - gpus):
            there.take(shape_of(), Placement(entry.name, ()))
    return there


def placed(name: str, shape: Shape, workers: int, nodes: Ledger, memory: Any = None, **params: Any) -> str | None:
    """The nodes of the workers as one word."""
    found = stage("place", name).build(params).place(job(1), shape, workers, nodes, {} if memory is None else memory)
    return None if found is None else "".join(found)


# --- every stage, one job, by hand


@pytest.mark.parametrize(
    ("name", "free", "workers", "expected"),
    [
        # the first node where all fit; else the largest first
        ("pack", (2, 4, 3), 3, "bbb"),
        ("pack", (2, 4, 3), 5, "bbbbc"),
        ("count", (2, 4, 3), 3, "bbb"),
        ("count", (2, 4, 3), 5, "bbbbc"),
        # the tightest node where all fit
        ("best-fit", (2, 4, 3), 3, "ccc"),
        ("best-fit", (2, 4, 3), 2, "aa"),
        ("best-fit", (2, 4, 3), 5, "bbbbc"),
        # the next in turn where all fit
        ("round-robin", (2, 4, 3), 3, "bbb"),
        ("round-robin", (2, 4, 3), 5, "bbbbc"),
        # as best-fit, and the rest of a job that is split goes where it fits tightest: 4 + 1, the 1 on d
        ("hungarian", (2, 4, 3, 1), 3, "ccc"),
        ("hungarian", (2, 4, 3, 1), 5, "bbbbd"),
        ("hungarian", (2, 4, 3, 1), 6, "bbbbaa"),
        ("hungarian", (4, 4, 4), 9, "aaaabbbbc"),
        # every worker on the emptiest node
        ("k8s-default", (2, 4, 3), 1, "b"),
        ("k8s-default", (3, 1, 1), 2, "aa"),
        # what does not fit, and what is exactly all
        *((name, (2, 1), 4, None) for name in ALL),
        *((name, (0, 0), 1, None) for name in ALL),
    ],
)
def test_the_place_of_one_job(name: str, free: tuple[int, ...], workers: int, expected: str | None) -> None:
    assert placed(name, shape_of(), workers, ledger(*free, of=4)) == expected


@pytest.mark.parametrize("name", ALL)
def test_there_may_be_no_node_at_all(name: str) -> None:
    assert placed(name, shape_of(), 1, ledger()) is None


@pytest.mark.parametrize("name", ALL)
def test_workers_of_several_gpus_do_not_share_one_over_two_nodes(name: str) -> None:
    assert placed(name, shape_of(gpus=2), 2, ledger(3, 1)) is None
    assert sorted(placed(name, shape_of(gpus=2), 2, ledger(3, 3)) or "") == ["a", "b"]


def test_of_nodes_where_equally_many_workers_fit_the_one_with_less_to_spare_is_tighter() -> None:
    assert placed("hungarian", shape_of(gpus=3), 2, ledger(7, 6)) == "bb"


def test_round_robin_goes_on_after_the_last_node_by_name() -> None:
    memory: dict[str, Any] = {}
    words = [placed("round-robin", shape_of(), 1, ledger(4, 4, 4), memory) for _ in range(4)]
    assert words == ["a", "b", "c", "a"]
    memory["round_robin.last"] = "bb"  # a node that has left meanwhile
    assert placed("round-robin", shape_of(), 1, ledger(4, 4, 4), memory) == "c"


@pytest.mark.parametrize("name", ALL)
def test_only_nodes_that_take_jobs_and_are_not_kept_free_are_used(name: str) -> None:
    there = ledger(4, 4, 4)
    there.set_closed(next(iter(there)), True)
    assert set(placed(name, shape_of(), 8, there) or "") == {"b", "c"}
    assert placed(name, shape_of(), 9, there) is None


# --- k8s-default with cores and memory


def machine(name: str, cpus: float, memory: float) -> Node:
    return node(name, cpus=cpus, memory=memory)


def k8s(shape: Shape, workers: int, *nodes: Node, used: dict[str, tuple[float, int]] | None = None) -> str | None:
    there = Ledger(nodes)
    for name, (cpus, memory) in (used or {}).items():
        there.take(shape_of(0, cpus=cpus, memory=memory), Placement(name, ()))  # type: ignore[arg-type]
    return placed("k8s-default", shape, workers, there)


def test_k8s_default_takes_the_least_allocated_node() -> None:
    # With the worker: a (3+1)/8 and 10/40, b (1+1)/8 and 10/40 -> b is emptier.
    worker = shape_of(0, cpus=1.0, memory=10)
    assert k8s(worker, 1, machine("a", 8, 40), machine("b", 8, 40), used={"a": (3.0, 0), "b": (1.0, 0)}) == "b"


def test_k8s_default_counts_shares_not_amounts() -> None:
    # a has 6 of 16 cores free, b 5 of 8: the share decides.
    worker = shape_of(0, cpus=1.0, memory=1)
    assert k8s(worker, 1, machine("a", 16, 100), machine("b", 8, 100), used={"a": (10.0, 0), "b": (3.0, 0)}) == "b"


def test_k8s_default_prefers_even_shares() -> None:
    # Both would be at a mean share of 0.5; a at 0.9 and 0.1, b at 0.5 and 0.5: 0.5 + 0.6 against 0.5 + 1.
    worker = shape_of(0, cpus=1.0, memory=1)
    assert k8s(worker, 1, machine("a", 10, 10), machine("b", 10, 10), used={"a": (8.0, 0), "b": (4.0, 4)}) == "b"


def test_k8s_default_spreads_the_workers_of_a_job() -> None:
    # Shares with one more: a 1/4, b 1/8: b; a 1/4, b 2/8: a tie; the other is next; a 2/4, b 3/8: b.
    worker = shape_of(0, cpus=1.0, memory=1)
    assert k8s(worker, 4, machine("a", 4, 4), machine("b", 8, 8)) in ("babb", "bbab")


def test_k8s_default_scores_by_hand() -> None:
    """16 cores, 64 GiB; each pod counts as 0.1 cores and 200 MiB, so 0.625 % and 0.305 %, of which nothing is leased.

    With so many pods: ⌊mean of ⌊CPU⌋ and ⌊memory⌋⌋ that is free, and ⌊100 − their distance⌋.
    """
    expected = [99 + 99, 98 + 99, 98 + 99, 97 + 98, 97 + 98, 97 + 98, 96 + 97]
    (there,) = Ledger([machine("a", 16, 64 * 2**30)])
    found = [k8s_score(there, shape_of(0, cpus=0.001), 1, (0.1 * k - 0.001, 200 * 2**20 * k)) for k in range(1, 8)]
    assert found == expected, "with one or two pods nodes are equal, and with three to five"


def test_k8s_default_counts_what_names_no_request_though_nobody_leases_it() -> None:
    """Three such pods on one node weigh more than two there; those just placed count, too."""
    state = State(build_policy().order, AssumedFacts(), [machine(name, 16, 64 * 2**30) for name in "ab"])
    for number, name in enumerate("aaabb", 1):
        pod = replace(job(number), spec=JobSpec("pod", "true", resources=WorkerResources(cpus_min=0.001, cpus_max=8.0)))
        pod.placements = (Placement(NodeName(name)),)
        state.jobs[pod.id], state.attempts[pod.id] = pod, None  # type: ignore[assignment] # only its key is asked for
    memory: Memory = {}
    stage("place", "k8s-default").build({}).survey(Board(state, 0.0), memory)
    pods = {"a": 3, "b": 2}
    counted = {name: [pytest.approx(0.099 * n), pytest.approx(200 * 2**20 * n)] for name, n in pods.items()}
    assert memory["k8s_default.unnamed"] == counted
    assert placed("k8s-default", shape_of(0, cpus=0.001), 1, state.ledger, memory) == "b"
    assert memory["k8s_default.unnamed"]["b"][0] == pytest.approx(0.099 * 3)


def test_k8s_default_draws_other_lots_with_another_seed_and_the_same_with_the_same() -> None:
    there = Ledger(machine(name, 16, 64 * 2**30) for name in "abcd")

    def lots(seed: int) -> list[str]:
        drawn = stage("place", "k8s-default").build({"seed": seed})
        found = (drawn.place(job(number), shape_of(0, cpus=0.001), 1, there, {}) for number in range(1, 101))
        return [each[0] for each in found]

    first = lots(0)
    assert lots(0) == first
    assert lots(1) != first
    assert all(15 <= first.count(name) <= 35 for name in "abcd"), "and no node is favoured"


def test_k8s_default_judges_a_gpu_job_by_cores_where_nodes_have_them() -> None:
    there = [node("a", cpus=8, gpus=4, memory=2**36), node("b", cpus=8, gpus=2, memory=2**36)]
    assert k8s(shape_of(1, cpus=1.0), 1, *there, used={"a": (2.0, 1)}) == "b"


def test_k8s_default_can_place_what_asks_for_nothing_that_is_counted() -> None:
    there = Ledger([make_node(0, 2, "a")])
    assert placed("k8s-default", shape_of(0, cpus=0.0), 2, there) == "aa"


# --- what an assignment costs


def test_the_score_by_hand() -> None:
    # A: 3 workers, 2 on node 0 and 1 on node 1: 2 pairs across; it was 1 and 2: 1 worker moved.
    # B: 1 worker of 2 slots, new, on node 1. Free: 4-2 = 2, 4-1-2 = 1, 4: pairs apart 2·1 + 2·4 + 1·4 = 14.
    problem = Problem((Piece(3, 1, {0: 1, 1: 2}), Piece(1, 2)), (4, 4, 4))
    assert score(problem, ({0: 2, 1: 1}, {1: 1})) == (2, 1, 14)


@pytest.mark.parametrize(
    ("workers", "now", "spread", "moved"),
    [
        (2, {}, {0: 2}, 0),  # new
        (2, {0: 2}, {0: 2}, 0),
        (2, {0: 2}, {1: 2}, 2),
        (4, {0: 2}, {0: 4}, 0),  # grown where it is
        (4, {0: 2}, {1: 4}, 2),
        (1, {0: 1, 1: 1}, {0: 1}, 0),  # shrunk
        (1, {0: 1, 1: 1}, {2: 1}, 1),
    ],
)
def test_who_counts_as_moved(workers: int, now: dict[int, int], spread: dict[int, int], moved: int) -> None:
    assert moved_workers(Piece(workers, 1, now), spread) == moved


# --- solvers over a whole cluster, by hand


def test_hungarian_packs_and_leaves_the_large_job_where_it_is() -> None:
    # Packed: the job of 3 on anonymous node 0, the job of 1 with it. Bound to node 1, where the 3 are: 1 moves.
    problem = Problem((Piece(1, 1, {0: 1}), Piece(3, 1, {1: 3})), (4, 4))
    assert hungarian.solve(problem) == ({1: 1}, {1: 3})


def test_hungarian_binds_only_nodes_of_equal_capacity() -> None:
    # The job of 6 must go to the node of 8, whatever it costs; the job of 2 fits with it.
    problem = Problem((Piece(6, 1, {0: 4, 1: 2}), Piece(2, 1, {2: 2})), (4, 4, 8))
    assert hungarian.solve(problem) == ({2: 6}, {2: 2})


def test_hungarian_finds_the_best_of_all_bindings() -> None:
    # Three full nodes in a circle: job j is on node j + 1. Staying costs nothing; as packed, all 12 would move.
    problem = Problem(tuple(Piece(4, 1, {(j + 1) % 3: 4}) for j in range(3)), (4, 4, 4))
    found = hungarian.solve(problem)
    assert found == ({1: 4}, {2: 4}, {0: 4})
    assert score(problem, found).moved == 0


def test_branch_and_bound_brings_a_job_together_with_the_fewest_moves() -> None:
    # A: 2 + 2 on nodes 0 and 1; B: 2 on node 0; C: 1 on node 1. A together on node 1 needs C to go: 2 + 1 moves.
    # A together on node 0 needs B to go: 2 + 2. A on the empty node 2: 2 + 2. So 3.
    now = (Piece(4, 1, {0: 2, 1: 2}), Piece(2, 1, {0: 2}), Piece(1, 1, {1: 1}))
    answer = branch_and_bound.solve(Problem(now, (4, 4, 4)))
    assert answer.proven
    assert answer.assignment == ({1: 4}, {0: 2}, {0: 1})


def test_branch_and_bound_leaves_alone_what_is_well() -> None:
    jobs = (Piece(4, 1, {2: 4}), Piece(4, 1, {0: 4}), Piece(2, 1, {1: 2}))
    assert branch_and_bound.solve(Problem(jobs, (4, 4, 4))) == (({2: 4}, {0: 4}, {1: 2}), True)


def test_branch_and_bound_finds_a_place_where_packing_does_not() -> None:
    # Best fit puts the 3 on the node of 4, and then one of 2 has no place; 2 + 2 and 3 + 2 fill both nodes.
    problem = Problem((Piece(1, 3), Piece(1, 2), Piece(1, 2), Piece(1, 2)), (4, 5))
    assert best_fit_decreasing(problem) is None
    assert hungarian.solve(problem) is None
    found, proven = branch_and_bound.solve(problem)
    assert proven
    assert found is not None
    assert free_slots(problem, found) == [0, 0]


def test_genetic_finds_a_place_where_packing_does_not() -> None:
    problem = Problem((Piece(1, 3), Piece(1, 2), Piece(1, 2), Piece(1, 2)), (4, 5))
    found = genetic.solve(problem)
    assert found is not None
    assert free_slots(problem, found) == [0, 0]


def test_branch_and_bound_says_when_it_ran_out_of_states() -> None:
    now = (Piece(4, 1, {0: 2, 1: 2}), Piece(2, 1, {0: 2}), Piece(1, 1, {1: 1}))
    answer = branch_and_bound.solve(Problem(now, (4, 4, 4)), states=1)
    assert not answer.proven
    assert answer.assignment is not None


def test_branch_and_bound_proves_that_there_is_no_place() -> None:
    assert branch_and_bound.solve(Problem((Piece(2, 2),), (3, 1))) == (None, True)
    assert branch_and_bound.solve(Problem((Piece(1, 3),) * 3, (5, 5))) == (None, True), "each alone would fit"


def test_genetic_brings_a_job_together() -> None:
    now = (Piece(4, 1, {0: 2, 1: 2}), Piece(2, 1, {0: 2}), Piece(1, 1, {1: 1}))
    problem = Problem(now, (4, 4, 4))
    found = genetic.solve(problem, seed=1)
    assert found is not None
    assert score(problem, found)[:2] == (0, 3)


def some_cluster(seed: int) -> Problem:
    """Twelve jobs of up to four workers, each where there was room, on six nodes of four."""
    rng = random.Random(seed)
    free, jobs = [4] * 6, []
    for _ in range(12):
        now: Counter[int] = Counter()
        for _ in range(min(rng.choice((1, 1, 2, 3, 4)), sum(free))):
            node = rng.choice([n for n, slots in enumerate(free) if slots])
            free[node] -= 1
            now[node] += 1
        if now:
            jobs.append(Piece(sum(now.values()), 1, dict(now)))
    return Problem(tuple(jobs), (4,) * 6)


def test_the_solvers_differ_where_many_jobs_are_placed_at_once() -> None:
    """Exact is best, the search comes near, and packing moves most; as place stages for one job they were the same."""
    totals = []
    for solver in (lambda p: branch_and_bound.solve(p).assignment, genetic.solve, hungarian.solve):
        answers = [(problem, solver(problem)) for problem in map(some_cluster, range(20))]
        scores = [score(problem, found) for problem, found in answers if found is not None]
        assert len(scores) == 20
        totals.append((sum(each.cross for each in scores), sum(each.moved for each in scores)))
    exact, searched, packed = totals
    assert exact < searched < packed


def test_an_empty_problem_has_an_empty_answer() -> None:
    nothing = Problem((), (4, 4))
    assert hungarian.solve(nothing) == genetic.solve(nothing) == branch_and_bound.solve(nothing).assignment == ()


def test_placing_new_jobs_does_not_load_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)  # an import would now fail
    assert placed("hungarian", shape_of(), 5, ledger(2, 4, 3)) is not None


# --- solvers against trying everything


def spreads(job: Piece, nodes: int) -> Iterator[dict[int, int]]:
    for counts in product(range(job.workers + 1), repeat=nodes):
        if sum(counts) == job.workers:
            yield {node: n for node, n in enumerate(counts) if n}


def every_assignment(problem: Problem) -> list[Assignment]:
    ways = product(*(list(spreads(job, len(problem.capacity))) for job in problem.jobs))
    return [way for way in ways if min(free_slots(problem, way), default=0) >= 0]


@st.composite
def problems(draw: st.DrawFn, slots: int = 2) -> Problem:
    """Up to 3 jobs of up to 3 workers on up to 3 nodes, some of them placed already."""
    capacity = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    free, jobs = list(capacity), []
    for _ in range(draw(st.integers(1, 3))):
        workers, each = draw(st.integers(1, 3)), draw(st.integers(1, slots))
        now: Counter[int] = Counter()
        for _ in range(draw(st.sampled_from((0, workers, workers, 1)))):
            node = draw(st.integers(0, len(capacity) - 1))
            if free[node] >= each:
                free[node] -= each
                now[node] += 1
        jobs.append(Piece(workers, each, dict(now)))
    return Problem(tuple(jobs), capacity)


def assert_right(problem: Problem, found: Assignment) -> None:
    assert [sum(spread.values()) for spread in found] == [job.workers for job in problem.jobs]
    assert min(free_slots(problem, found)) >= 0


@settings(max_examples=150, deadline=None)
@given(problems())
def test_branch_and_bound_finds_the_best_there_is(problem: Problem) -> None:
    answer = branch_and_bound.solve(problem)
    best = min((score(problem, way) for way in every_assignment(problem)), default=None)
    assert answer.proven
    if best is None:
        assert answer.assignment is None
    else:
        assert answer.assignment is not None
        assert_right(problem, answer.assignment)
        assert score(problem, answer.assignment) == best


@settings(max_examples=150, deadline=None)
@given(problems())
def test_nothing_is_better_than_the_lower_bound(problem: Problem) -> None:
    best = min((score(problem, way) for way in every_assignment(problem)), default=None)
    least = lower_bound(problem.jobs, problem.capacity)
    if best is not None:
        assert least is not None
        assert all(bound <= real for bound, real in zip(least, best, strict=True))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_for_one_new_job_the_tightest_fit_is_the_best_there_is(workers: int, slots: int, free: list[int]) -> None:
    problem = Problem((Piece(workers, slots),), tuple(free))
    found = best_fit_decreasing(problem)
    best = min((score(problem, way) for way in every_assignment(problem)), default=None)
    assert (score(problem, found) if found else None) == best


@settings(max_examples=150, deadline=None)
@given(problems())
def test_hungarian_never_moves_more_than_the_nodes_as_packed(problem: Problem) -> None:
    packed, bound = best_fit_decreasing(problem), hungarian.solve(problem)
    assert (packed is None) == (bound is None)
    if packed is not None and bound is not None:
        assert_right(problem, bound)
        before, after = score(problem, packed), score(problem, bound)
        assert after.moved <= before.moved
        assert (after.cross, after.fragmentation) == (before.cross, before.fragmentation)


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(0, 3))
def test_genetic_is_never_worse_than_where_it_starts(problem: Problem, seed: int) -> None:
    found = genetic.solve(problem, seed, population=6, generations=5)
    for start in (as_it_is(problem), best_fit_decreasing(problem), hungarian.solve(problem)):
        if start is not None:
            assert found is not None
            assert score(problem, found) <= score(problem, start)
    if found is not None:
        assert_right(problem, found)
    assert found == genetic.solve(problem, seed, population=6, generations=5), "the same seed, the same answer"


# --- every stage, anything


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ALL),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.integers(1, 12),
    st.sampled_from((1, 1, 2, 3)),
)
def test_a_place_for_each_worker_and_never_more_than_there_is(
    name: str, free: list[int], workers: int, gpus: int
) -> None:
    there, shape = ledger(*free, of=4), shape_of(gpus=gpus)
    rooms = {entry.name: entry.room_for(shape) for entry in there}
    found = placed(name, shape, workers, there)
    if found is None:
        assert sum(rooms.values()) < workers
    else:
        assert len(found) == workers
        assert all(n <= rooms[node] for node, n in Counter(found).items())  # type: ignore[index]
    assert {entry.name: entry.room_for(shape) for entry in there} == rooms, "looking changes nothing"
    assert placed(name, shape, workers, there) == found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ON_FEW_NODES), st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 12))
def test_a_job_goes_on_as_few_nodes_as_possible(name: str, free: list[int], workers: int) -> None:
    found = placed(name, shape_of(), workers, ledger(*free, of=4))
    if found is not None:
        most_first = sorted(free, reverse=True)
        assert sum(most_first[: len(set(found)) - 1]) < workers


def test_memory_and_kinds_of_gpus_are_respected() -> None:
    there = [node("a", gpus=4, memory=10), node("b", gpus=4, memory=100, models=["A100", "A100", "T4", "T4"])]
    for name in ALL:
        assert placed(name, shape_of(1, cpus=1.0, memory=30), 3, Ledger(there)) == "bbb"
        assert placed(name, shape_of(1, cpus=1.0, gpu_type="A100"), 2, Ledger(there)) == "bb"
        assert placed(name, shape_of(1, cpus=1.0, gpu_type="A100"), 3, Ledger(there)) is None


# --- parameters


@pytest.mark.parametrize(
    ("param", "value", "allowed"),
    [
        ("solver", "simplex", "hungarian, branch-and-bound, genetic"),
        ("states", 0, "1 to 10000000"),
        ("states", "many", "a whole number"),
        ("population", 1, "2 to 1000"),
        ("generations", -1, "0 to 10000"),
        ("generations", 1.5, "a whole number"),
        ("seed", True, "a whole number"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(param: str, value: object, allowed: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        build_policy("fifo", {"migrate": "consolidate"}, {param: value})
    assert caught.value.field == f"params.{param}"
    assert allowed in caught.value.allowed


def test_resources_are_counted_as_the_stages_see_them() -> None:
    entry = next(iter(Ledger([Node("a", capacity=Resources(cpus=8), reserved=Resources(cpus=2))])))  # type: ignore[arg-type]
    assert (entry.amounts("cpus"), entry.amounts("tpus")) == ((6.0, 6.0), (0.0, 0.0))


# --- procon: by what is left to do where


class Left(AssumedFacts):
    """Job 1 has 100 s left, job 2 200 s, and so on; of job 9 nothing is known."""

    def remaining(self, job: Job, now: float) -> float:
        return math.inf if job.id == 9 else 100.0 * job.id


def surveyed(where: dict[int, str], cpus: float = 8, nodes: str = "abc", **more: Any) -> tuple[State, Memory]:
    """Jobs that may use so many cores each, on nodes with 16."""
    state = State(build_policy().order, Left(), [node(name, cpus=16) for name in nodes])
    for number, name in where.items():
        one = job(number, cpus=cpus)
        one.placements = (Placement(NodeName(name)),)
        one.ran = Accrual(more.get("ran", 0.0))
        state.jobs[one.id] = one
        state.attempts[one.id] = None  # type: ignore[assignment] # only its key is asked for
        state.ledger.take_all(shape_of(0, cpus=more.get("leased", 0.001)), one.placements)
    memory: Memory = {}
    stage("place", "procon").build({}).survey(Board(state, 50.0), memory)
    return state, memory


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "a"),
        ({1: "a"}, "b"),
        ({1: "a", 2: "b", 3: "c"}, "a"),  # 100, 200, 300
        ({1: "a", 2: "a", 5: "b", 7: "c"}, "b"),  # (100 + 200) × 2 = 600, 500, 700
        ({1: "a", 2: "a", 7: "b", 8: "c"}, "a"),  # 600, 700, 800
        ({1: "a", 2: "a", 3: "a", 8: "b"}, "c"),
        ({1: "a", 2: "b", 9: "c"}, "c"),  # as long again as it has run: 40 s
    ],
)
def test_procon_goes_where_the_least_is_left_to_do(where: dict[int, str], expected: str) -> None:
    state, memory = surveyed(where, ran=40.0)
    assert placed("procon", shape_of(0, cpus=1), 1, state.ledger, memory) == expected


def test_procon_counts_that_jobs_slow_each_other_down() -> None:
    """Three that may use all 16 cores take three times as long: (100 + 200 + 300) × 3 × 3."""
    _, memory = surveyed({1: "a", 2: "a", 3: "a", 4: "b"}, cpus=16)
    assert memory["procon.work"] == {"a": [1800.0, 3], "b": [400.0, 1], "c": [0.0, 0]}


def test_procon_spreads_those_that_come_at_once() -> None:
    state, memory = surveyed({})
    words = [placed("procon", shape_of(0, cpus=1), 1, state.ledger, memory) for _ in range(4)]
    assert sorted(words[:3]) == ["a", "b", "c"]  # type: ignore[type-var]


def test_procon_leaves_out_nodes_above_the_limit_while_there_are_others() -> None:
    state, memory = surveyed({1: "a", 8: "b"}, nodes="ab")
    state.ledger.take_all(shape_of(0, cpus=13.0), [Placement(NodeName("a"))])
    assert placed("procon", shape_of(0, cpus=1), 1, state.ledger, memory) == "b"
    assert placed("procon", shape_of(0, cpus=1), 1, state.ledger, memory, procon_cpu_limit=0.9) == "a"
    state.ledger.take_all(shape_of(0, cpus=13.0), [Placement(NodeName("b"))])
    assert placed("procon", shape_of(0, cpus=1), 1, state.ledger, memory) == "a", "all are above it"


def test_procon_in_the_control_loop() -> None:
    """The jobs that run are looked at before each decision."""
    w = World(node("a"), node("b"), policy="procon", facts=Left())
    w.submit(job(3, cpus=1))
    w.submit(job(1, cpus=1))
    w.submit(job(2, cpus=1))
    assert [w.where(number) for number in (3, 1, 2)] == [["a"], ["b"], ["b"]]
