"""What must hold for every preset, whatever the workload."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.state import State
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.catalogue.registry import STAGES
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.types import TraceJob, Workload
from support.builders import leases_of

_job = st.tuples(st.integers(0, 200), st.integers(1, 120), st.integers(1, 4), st.booleans())
_workloads = st.lists(_job, min_size=1, max_size=16)
_options = st.sampled_from(
    [
        SimOptions(),
        SimOptions(restart_cost=5.0, checkpoint_every=10.0),
        SimOptions(locality_penalty=0.3, seed=3),
        SimOptions(locality_penalty=0.5, seed=1, restart_cost=2.0, node_mtbf=300.0, node_repair=20.0),
    ]
)
_moves = st.sampled_from([{}, {"stages": {"migrate": "consolidate"}, "params": {"consolidate_every": 10}}])
HORIZON = 100


def workload(rows: list[tuple[int, int, int, bool]]) -> Workload:
    jobs = []
    for i, (arrival, duration, gpus, wide) in enumerate(rows):
        deadline = float(arrival + 3 * duration) if wide else None
        about = {"user": "u", "name": "n", "deadline": deadline, "workers": (1, 2 * gpus)}
        jobs.append(TraceJob(str(i), float(arrival), float(duration), gpus, **about))
    return Workload("random", jobs)


class Watched(Simulation):
    """Looks at the state after each step."""

    log: list[Any]

    def step(self, now: float) -> None:
        super().step(now)
        check(self.state)
        if not hasattr(self, "log"):
            self.log = []
        placed = sorted(
            (job.id, tuple(placement.node for placement in job.placements)) for job in self.state.jobs.values()
        )
        self.log.append((now, placed))


def check(state: State) -> None:
    for node in state.ledger:
        promised = sum(1 for job in state.jobs.values() for placement in job.placements if placement.node == node.name)
        leased = sum(lease.amounts["gpus"] for lease in leases_of(state).values() if lease.node == node.name)
        assert promised == leased <= node.node.capacity["gpus"], "nothing is leased twice"
        assert node.free["gpus"] == node.node.capacity["gpus"] - promised
    for job in state.jobs.values():
        workers = job.shape.workers
        assert job.workers == 0 or workers.min <= job.workers <= workers.max


def run(rows: list[tuple[int, int, int, bool]], preset: str, options: SimOptions, **overrides: Any) -> Watched:
    policy = build_policy(preset, overrides.get("stages"), overrides.get("params"))
    simulation = Watched(workload(rows), parse_cluster("2x2"), policy, options)
    simulation.result = simulation.run()  # type: ignore[attr-defined]
    return simulation


@pytest.mark.parametrize("preset", PRESETS)
@given(rows=_workloads, later=_workloads, options=_options, moves=_moves)
@settings(max_examples=20, deadline=None)
def test_what_holds_for_every_preset(preset: str, rows: Any, later: Any, options: SimOptions, moves: Any) -> None:
    """Every job ends, the ledger holds after each step, equal input gives equal decisions, and no decision sees what is
    submitted after it."""
    early = [row for row in rows if row[0] < HORIZON] or [(0, 1, 1, False)]
    after = [[(HORIZON + at, *more) for at, *more in one] for one in (rows, rows, later)]
    one, again, other = (run([*early, *late], preset, options, **moves) for late in after)
    for simulation, late in ((one, after[0]), (other, after[2])):
        result = simulation.result  # type: ignore[attr-defined]
        assert len(result.jobs) == len(early) + len(late), "no job starves under a finite workload"
        assert result.busy <= result.slots * max(job.ended for job in result.jobs) + 1e-6
    assert one.log == again.log
    before = [[entry for entry in seen.log if entry[0] < HORIZON] for seen in (one, other)]
    assert before[0] == before[1]


def pairwise() -> list[tuple[str, str, str]]:
    """Each two stages meet once: a Latin square, whose diagonals are the places."""
    orders, allocates, places = (list(STAGES[kind]) for kind in ("order", "allocate", "place"))
    side = range(max(len(orders), len(allocates), len(places)))
    square = (
        (orders[i % len(orders)], allocates[j % len(allocates)], (i + j) % len(places)) for i in side for j in side
    )
    return [(order, allocate, places[place]) for order, allocate, place in square]


@pytest.mark.parametrize(("order", "allocate", "place"), pairwise())
def test_any_two_stages_work_together(order: str, allocate: str, place: str) -> None:
    rows = [(i * 7 % 50, 5 + i * 13 % 40, 1 + i % 4, i % 2 == 0) for i in range(12)]
    stages = {"order": order, "allocate": allocate, "place": place}
    result = run(rows, "fifo", SimOptions(), stages=stages).result  # type: ignore[attr-defined]
    assert len(result.jobs) == len(rows)


@given(rows=_workloads)
@settings(max_examples=30, deadline=None)
def test_machines_that_fail_lose_work_but_no_job(rows: Any) -> None:
    options = SimOptions(node_mtbf=150.0, node_repair=20.0, checkpoint_every=10.0, seed=1)
    simulation = run(rows, "fifo", options)
    assert len(simulation.result.jobs) == len(rows)  # type: ignore[attr-defined]


def test_a_restart_costs_time_and_lost_work_is_done_again() -> None:
    rows = [(0, 100, 4, False), (25, 10, 4, False)]
    free = run(rows, "srtf", SimOptions()).result  # type: ignore[attr-defined]
    dear = run(rows, "srtf", SimOptions(restart_cost=7.0, checkpoint_every=20.0)).result  # type: ignore[attr-defined]
    assert [job.ended for job in free.jobs] == [35.0, 110.0]
    assert [job.ended for job in dear.jobs] == [35.0, 110.0 + 7.0 + 5.0]
    assert dear.summary()["lost_work"] == 5.0


def test_a_suspended_job_loses_nothing_and_pays_nothing() -> None:
    rows = [(0, 100, 4, False), (0, 100, 4, False)]
    options = SimOptions(restart_cost=7.0, checkpoint_every=20.0)
    result = run(rows, "gandiva", options, params={"quantum": 30.0}).result  # type: ignore[attr-defined]
    assert [(job.serial, job.ended) for job in result.jobs] == [(1, 190.0), (2, 200.0)]
    assert result.busy == 4 * 200.0
    assert [job.preemptions for job in result.jobs] == [3, 3]
    assert result.summary()["lost_work"] == 0.0


def test_a_machine_that_fails_takes_what_was_suspended_on_it_along() -> None:
    rows = [(i, 300, 1 + i % 3, False) for i in range(12)]
    options = SimOptions(node_mtbf=400.0, node_repair=50.0, checkpoint_every=10.0, restart_cost=5.0, seed=3)
    result = run(rows, "gandiva", options, params={"quantum": 20.0}).result  # type: ignore[attr-defined]
    assert len(result.jobs) == len(rows)
    assert result.summary()["lost_work"] > 0


def test_a_job_spread_over_nodes_is_slower_by_the_penalty() -> None:
    result = run([(0, 70, 4, False), (0, 70, 2, False)], "fifo", SimOptions(locality_penalty=0.3)).result  # type: ignore[attr-defined]
    assert [round(job.ended - job.started) for job in sorted(result.jobs, key=lambda j: j.serial)] == [100, 70]


def test_elastic_jobs_run_at_the_speed_of_their_size() -> None:
    # Alone on four GPUs, a job that wanted one gets two: s(2) = 2 / 1.05.
    result = run([(0, 100, 1, False)], "elastic-fifo", SimOptions()).result  # type: ignore[attr-defined]
    assert result.jobs[0].ended == pytest.approx(100 / (2 / 1.05))
