"""`balance` and `least-work`: what pays by hand-computed numbers, and what must hold wherever jobs are."""

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.migrate import Board
from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.loads import Load, ends, loads_of
from schedulearn.core.policies.migrate.balance import Balance
from schedulearn.core.policies.place.least_work import LeastWork
from schedulearn.core.policies.stages import Moves
from support.builders import job, node
from support.facts import AssumedFacts

CORES, COST = 4, 3.0


class Told(AssumedFacts):
    """What each job has left."""

    def __init__(self) -> None:
        self.left: dict[JobId, float] = {}

    def remaining(self, job: Job, now: float) -> float:
        return self.left.get(job.id, math.inf)

    def restart_cost(self, job: Job) -> float:
        return COST


class Cluster:
    """Jobs that can use a whole node each, on nodes a, b, c, …; moves are made at once."""

    def __init__(self, where: Mapping[str, list[float | None]], **params: Any) -> None:
        self.stage, self.memory, self.facts, self.now = Balance(**params), {}, Told(), 1000.0
        self.state = State(build_policy().order, self.facts, [node(name, cpus=CORES) for name in where])
        self.moved: list[tuple[float, int, str]] = []
        for name, lefts in where.items():
            for left in lefts:
                self.add(name, left)

    def add(self, name: str, left: float | None, **more: Any) -> Job:
        one = job(len(self.state.jobs) + 1, cpus=0.1, **{"preemptible": Preemptible.YES, **more})
        one.cpus_limit, one.state = float(CORES), JobState.RUNNING
        self.state.jobs[one.id] = one
        self.state.attempts[one.id] = None  # type: ignore[assignment] # only its key is asked for
        if left is not None:
            self.facts.left[one.id] = left
        self._put(one, name)
        return one

    def _put(self, one: Job, name: str) -> None:
        self.state.promise(one, (Placement(NodeName(name)),))

    def ask(self) -> Moves:
        answer = self.stage.migrate(Board(self.state, self.now), self.memory)
        self.memory = json.loads(json.dumps(self.memory, allow_nan=False))  # plain JSON, as after a restart
        for number, (name,) in answer.to.items():
            self.moved.append((self.now, number, name))
            self._put(self.state.jobs[number], name)
            self.facts.left[number] += COST
        return answer

    def settle(self, seconds: float = 0.0) -> None:
        """Ask until nobody moves any more, or for so long."""
        until = self.now + seconds
        while self.ask().to or self.now < until:
            self.now += 30.0 if seconds else 0.0
            assert len(self.moved) < 1000

    def last(self) -> float:
        return max((ends(there)[1] for there in loads_of(Board(self.state, self.now), {}).values()), default=0.0)


# --- what pays


def test_the_shortest_first_by_hand() -> None:
    loads = [Load(job(number), work, work) for number, work in enumerate((30.0, 10.0, 20.0), 1)]
    assert ends(loads) == (10 + 30 + 60, 60)
    slow = Load(job(4), alone=100.0, work=20.0)  # it uses a fifth of the machine
    assert ends([*loads, slow]) == (10 + 30 + 100 + 80, 100)
    assert ends([]) == (0.0, 0.0)


def test_an_idle_machine_takes_the_job_whose_move_brings_most() -> None:
    """a: 50 + 150 + 350. Without 200 it is 50 + 150 there and 203 here; without 100: 50 + 250 and 103."""
    cluster = Cluster({"a": [50, 100, 200], "b": []})
    answer = cluster.ask()
    assert answer.to == {3: ["b"]}
    (note,) = answer.notes
    # 147 s in the sum, and the end at 203 instead of 350 counts as much as five jobs.
    assert note.data["gain"] == pytest.approx(350 - 203 + 5 * (350 - 203))
    assert note.data["work"] == {"a": 350.0, "b": 0.0}
    assert answer.wake_at == cluster.now + 30


@pytest.mark.parametrize(
    "where",
    [
        {"a": [100.0], "b": []},  # alone it is as fast anywhere
        {"a": [3.0, 3.5], "b": []},  # the move costs more than it brings
        {"a": [100.0, 100.0], "b": [100.0, 100.0]},
        {"a": [100.0, None], "b": [100.0, 90.0]},
        {"a": [None, None, None], "b": []},  # nobody can tell
        {"a": [50.0, 50.0]},  # nowhere to go
    ],
)
def test_nobody_moves_where_it_does_not_pay(where: Mapping[str, list[float | None]]) -> None:
    assert Cluster(where).ask().to == {}


def test_a_machine_that_the_job_cannot_run_on_is_passed_over() -> None:
    """c has nothing to do either, but runs no containers."""
    cluster = Cluster({"c": [], "a": [], "b": []})
    for name in "ab":
        cluster.state.ledger.set_node(node(name, cpus=CORES, executor="docker"))
    for left in (100.0, 100.0):
        cluster.add("a", left, image="train")
    assert cluster.ask().to == {1: ["b"]}


def test_a_job_without_an_image_moves_only_to_where_it_finds_the_same() -> None:
    """From a process into a container, or to another image, it may not even start."""
    cluster = Cluster({"c": [], "a": [100.0, 100.0], "b": []})
    cluster.state.ledger.set_node(node("c", cpus=CORES, executor="docker", default_image="python"))
    assert cluster.ask().to == {1: ["b"]}
    lonely = Cluster({"c": [], "a": [100.0, 100.0]})
    lonely.state.ledger.set_node(node("c", cpus=CORES, executor="docker", default_image="python"))
    assert lonely.ask().to == {}
    assert not Board(lonely.state, lonely.now).fits({JobId(1): [NodeName("c")]}), "whatever the stage"


def test_nobody_moves_that_may_not_or_that_has_a_gpu_for_itself() -> None:
    cluster = Cluster({"a": [], "b": []})
    for _ in range(3):
        cluster.add("a", 100.0, preemptible=Preemptible.NO)
    assert cluster.ask().to == {}
    gpus = [job(number, gpus=1, preemptible=Preemptible.YES) for number in (1, 2)]
    assert all(one.shape.gpus for one in gpus)
    state = State(build_policy().order, cluster.facts, [node("a", gpus=2), node("b", gpus=2)])
    for one in gpus:
        one.state, one.placements = JobState.RUNNING, (Placement(NodeName("a")),)
        state.jobs[one.id], state.attempts[one.id] = one, None  # type: ignore[assignment]
        cluster.facts.left[one.id] = 100.0
    assert Balance().migrate(Board(state, 1000.0), {}) == Moves()


def test_while_jobs_come_the_end_does_not_count() -> None:
    """The move of 10 brings 530 + 300 - 500 - 326 = 4 s in the sum: too little. But the end is 10 s sooner."""
    cluster = Cluster({"a": [10, 100, 300], "b": [300]})
    cluster.now = 30.0
    assert cluster.ask().to == {}
    cluster.now = 60.0
    assert cluster.ask().to == {1: ["b"]}


def test_neither_machine_ends_later_than_the_later_one_would_have() -> None:
    """The move of 100 brings 600 + 250 - 300 - 456 = 94 s in the sum, but b would end at 353."""
    cluster = Cluster({"a": [100, 100, 100], "b": [250]})
    cluster.now = 30.0
    assert cluster.ask().to == {}
    assert Cluster({"a": [100, 100, 100], "b": [150]}).ask().to != {}


# --- whatever happens

_left = st.one_of(st.none(), st.floats(1, 500))
_where = st.dictionaries(st.sampled_from("abcd"), st.lists(_left, max_size=6), min_size=1, max_size=4)


@given(_where)
@settings(max_examples=60, deadline=None)
def test_moves_come_to_an_end_and_make_nothing_later(where: dict[str, list[float | None]]) -> None:
    cluster = Cluster(where)
    before = cluster.last()
    cluster.settle()
    assert len({number for _, number, _ in cluster.moved}) == len(cluster.moved), "at one time each moves once"
    if all(left is not None for lefts in where.values() for left in lefts):
        assert cluster.last() <= before + 1e-6


@given(_where, st.lists(st.floats(0.2, 5.0), min_size=24, max_size=24))
@settings(max_examples=30, deadline=None)
def test_nobody_moves_more_often_than_the_rule_allows(where: dict[str, list[float | None]], noise: list[float]) -> None:
    """Estimates that go anywhere, for an hour: the n-th move of a job is 60 · 2^(n-2) s or more after the last."""
    cluster = Cluster(where)
    true = dict(cluster.facts.left)
    for k in range(120):
        cluster.facts.left = {one: left * noise[(k + one) % 24] for one, left in true.items()}
        cluster.ask()
        cluster.now += 30.0
    for one in true:
        times = [at for at, number, _ in cluster.moved if number == one]
        assert all(b - a >= 60 * 2**n for n, (a, b) in enumerate(pairwise(times)))
        assert len(times) <= 7


@given(_where)
@settings(max_examples=30, deadline=None)
def test_equal_inputs_give_equal_decisions(where: dict[str, list[float | None]]) -> None:
    one, again = Cluster(where), Cluster(where)
    assert one.ask() == again.ask()
    assert one.memory == again.memory


@given(_where, st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_a_job_is_placed_where_the_least_is_left(where: dict[str, list[float | None]], count: int) -> None:
    cluster, stage, memory = Cluster(where), LeastWork(), {}
    board = Board(cluster.state, cluster.now)
    stage.survey(board, memory)
    nothing = {node.name: 0.0 for node in cluster.state.ledger}
    work = nothing | {name: sum(load.work for load in there) for name, there in loads_of(board, {}).items()}
    new = job(99, cpus=0.1)
    for _ in range(count):
        (name,) = stage.place(new, new.shape, 1, cluster.state.ledger, memory) or ()
        assert work[name] == pytest.approx(min(work.values()))
        work = nothing | memory["least_work.seconds"]
