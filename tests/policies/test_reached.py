"""Share stages and those that look at the work that is left, where somebody has reached its target."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Target
from schedulearn.core.policies.loads import loads_of, usual_seconds
from schedulearn.core.policies.place.procon import Procon
from schedulearn.core.policies.share.flowcon import FlowCon
from schedulearn.core.policies.share.shortest import Shortest
from schedulearn.core.policies.sharing import Share
from support.builders import World, job, node
from support.facts import AssumedFacts
from support.machine import Machine

STAGES = {"flowcon": FlowCon, "shortest": Shortest}
FLOORS = {"flowcon": 1 / (2 * 2), "shortest": 0.1 / 2}  # of two containers, in cores of a machine with one


def machine(stage: str, cores: float = 1.0) -> Machine:
    made: Share = STAGES[stage]()
    return Machine(made, cores)


def reach(m: Machine, job: int, reached: bool = True) -> None:
    m.tenants[JobId(job)].reached = reached
    m.look()


@pytest.mark.parametrize("stage", STAGES)
def test_it_has_its_floor_at_once_while_others_want_more(stage: str) -> None:
    m = machine(stage)
    m.arrive(1, work=100.0)
    m.arrive(2)
    reach(m, 1)
    assert m.limits() == {1: pytest.approx(FLOORS[stage]), 2: math.inf}
    (note,) = [note for note in m.answers[-1][1].notes if note.job == 1]
    assert "target reached" in note.words
    assert note.data["reached"] is True


@pytest.mark.parametrize("stage", STAGES)
def test_it_has_what_the_others_leave(stage: str) -> None:
    m = machine(stage)
    m.arrive(1, work=100.0)
    m.arrive(2, wants=0.3)
    reach(m, 1)
    for value in range(6):
        m.interval({1: 1.0 / (value + 1), 2: 1.0 / (value + 1)})
    assert m.limits()[1] >= 0.7 - 1e-6
    assert m.limits()[2] == math.inf


def test_it_gives_back_at_once_what_another_wants_again_however_often() -> None:
    """FlowCon follows others to and fro ever more slowly, but not at the cost of who has not reached its target."""
    m = machine("flowcon")
    m.arrive(1)
    m.arrive(2)
    reach(m, 1)
    for turn in range(4):
        m.tenants[JobId(2)].wants = 0.3
        for value in range(3):
            m.interval({1: 1.0 / (value + 1), 2: 1.0 / (turn + value + 1)})
        assert m.limits()[1] > 0.6
        m.tenants[JobId(2)].wants = 1.0
        m.interval({1: 1.0, 2: 2.0 + turn})
        assert m.limits()[1] == pytest.approx(FLOORS["flowcon"])


@pytest.mark.parametrize("stage", STAGES)
def test_alone_or_among_its_like_it_is_not_limited_and_another_target_brings_it_back(stage: str) -> None:
    m = machine(stage)
    m.arrive(1)
    reach(m, 1)
    assert m.limits() == {1: math.inf}
    m.arrive(2)
    assert m.limits()[1] < math.inf
    reach(m, 2)
    assert m.limits() == {1: math.inf, 2: math.inf}, "all have reached theirs: they are equals"
    reach(m, 2, False)
    reach(m, 1, False)
    assert m.limits() == {1: math.inf, 2: math.inf}


_jobs = st.lists(
    st.tuples(st.sampled_from([0.2, 1.0, 4.0]), st.one_of(st.none(), st.floats(1, 1000)), st.booleans()),
    min_size=2,
    max_size=6,
)


@given(_jobs, st.lists(st.floats(0, 1), min_size=6, max_size=6), st.sampled_from(sorted(STAGES)))
@settings(max_examples=100, deadline=None)
def test_it_is_never_preferred(jobs: list[Any], noise: list[float], stage: str) -> None:
    """As long as somebody else wants more than its limit lets it have, no one that has reached its target is above
    its floor."""
    m = machine(stage, 4.0)
    for number, (wants, work, reached) in enumerate(jobs, 1):
        m.arrive(number, wants=wants, work=work)
        reach(m, number, reached)
    for value in noise:
        m.interval({number: value * number for number in range(1, len(jobs) + 1)})
        _check(m, stage)


def _check(m: Machine, stage: str) -> None:
    tenants = m.tenants.values()
    if all(tenant.reached for tenant in tenants):
        return
    part = {"flowcon": 1 / (2 * len(tenants)), "shortest": 0.1 / len(tenants)}[stage]
    lacking = any(not tenant.reached and tenant.limit < tenant.wants - 1e-6 for tenant in tenants)
    above = [tenant.limit for tenant in tenants if tenant.reached and tenant.limit > part * m.cores + 1e-6]
    assert not (lacking and above), (m.limits(), [tenant.reached for tenant in tenants])


# --- the work that is left


class Board:
    """A board of jobs that run on one node."""

    now, facts = 0.0, AssumedFacts()

    def __init__(self, *jobs: Job) -> None:
        self._world = World(node("a", cpus=8))
        self._world.submit(*jobs)
        self._jobs = jobs

    def jobs(self) -> tuple[Job, ...]:
        return self._jobs

    jobs_without_gpus = jobs

    def nodes(self) -> Any:
        return iter(self._world.state.ledger)


class Hours(AssumedFacts):
    def remaining(self, job: Job, now: float) -> float:
        return 3600.0


def test_its_work_counts_for_nothing() -> None:
    one, two = job(1, target=Target(0.1)), job(2)
    one.reached_at = 0.0
    board, memory = Board(one, two), dict[str, Any]()
    board.facts = Hours()
    loads = {load.job.id: load.work for load in loads_of(board, memory)["a"]}  # type: ignore[index, arg-type]
    assert loads == {1: 0.0, 2: 3600.0 / 8}
    assert usual_seconds(memory) == 3600.0, "nor is it what a job usually takes"
    Procon().survey(board, memory)  # type: ignore[arg-type]
    assert memory["procon.work"] == {"a": [3600.0, 1]}
