"""Why a job has its size and its place, in words: what is said is what would happen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from schedulearn.core.control.holding import Holding, holding
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.allocate.afs import Afs
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.stages import Allocate, Allocation, Known
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.registry import load
from support.builders import World, job, node
from support.facts import AssumedFacts


class Facts(AssumedFacts):
    """What is known of each job, by number: a curve (measured), and seconds left."""

    def __init__(
        self,
        curves: Mapping[int, Sequence[float]] | None = None,
        left: Mapping[int, float] | None = None,
        restart: float = 0.0,
    ) -> None:
        self._curves, self._left, self._restart = curves or {}, left or {}, restart

    def speedup(self, job: Job) -> SpeedUp:
        return SpeedUp(self._curves[job.id]) if job.id in self._curves else super().speedup(job)

    def remaining(self, job: Job, now: float) -> float:
        return self._left.get(job.id, math.inf)

    def restart_cost(self, job: Job) -> float:
        return self._restart

    def known(self, job: Job, now: float) -> Known:
        return Known(job.id in self._left, job.id in self._curves, False, False)


def elastic(number: int, workers: tuple[int, int, int] = (1, 2, 4), **more: object) -> Job:
    return job(number, gpus=1, cpus=0, workers=workers, preemptible=Preemptible.YES, **more)


def of(w: World, number: int) -> Holding:
    return holding(w.state, w.policy, w.job(number), w.now)


def run(w: World, *jobs: Job) -> World:
    w.submit(*jobs)
    for one in jobs:
        if one.id in w.state.attempts:
            w.started(one.id)
    w.cycle()
    return w


def shared(curves: Mapping[int, Sequence[float]], **more: Mapping[int, float]) -> World:
    """Two jobs on four GPUs, of 1 to 4 each."""
    w = World(node("a", gpus=4), policy="afs-l", facts=Facts(curves, **more))  # type: ignore[arg-type]
    return run(w, elastic(1), elastic(2, name="bert"))


def test_what_one_more_would_bring_and_which_job_gains_more_from_it() -> None:
    w = shared({1: (1, 1.9, 2.128, 2.2), 2: (1, 1.45, 1.5, 1.5)}, left={1: 600, 2: 600})
    assert w.job(1).workers == w.job(2).workers == 2
    assert of(w, 1).size == (
        "2 of 4 GPUs: a third would make it 12 % faster (measured); job 2 (bert) gains 45 % from its second."
        " The next to end is probably job 2, in about 10 min."
    )


def test_an_assumed_curve_is_said_to_be_assumed() -> None:
    w = shared({2: (1, 1.45, 1.5, 1.5)})
    assert "faster (assumed, not measured yet)" in of(w, 1).size


def test_a_job_that_gains_less_is_told_with_what_both_have_left() -> None:
    facts = Facts({1: (1, 1.9, 2.8, 3.5), 2: (1, 1.3, 1.5, 1.5)}, left={1: 36_000, 2: 60})
    w = run(World(node("a", gpus=4), policy="elastic-fifo", facts=facts), elastic(1), elastic(2, name="bert"))
    assert w.job(1).workers == w.job(2).workers == 2
    assert (
        "a third would make it 47 % faster (measured); job 2 (bert) gains 30 % from its second "
        "(1 min left, this one 10 h), which is less, but `elastic` goes by more than that."
    ) in of(w, 1).size


def test_all_that_it_can_use_and_what_one_fewer_would_cost() -> None:
    w = run(World(node("a", gpus=4), policy="afs-l", facts=Facts({1: (1, 1.6, 2.0, 2.5)})), elastic(1))
    assert of(w, 1).size == "4 of 4 GPUs: all that it can use; one fewer would make it 20 % slower (measured)."


def test_one_more_that_brings_nothing() -> None:
    w = run(World(node("a", gpus=4), policy="afs-l", facts=Facts({1: (1, 1.6, 1.6, 1.6)})), elastic(1))
    assert of(w, 1).size == "2 of 4 GPUs: a third would bring nothing (measured)."


def test_growth_that_does_not_pay_yet_says_when_it_is_looked_at_again() -> None:
    w = World(
        node("a", gpus=4), policy="afs-l", facts=Facts({1: (1, 1.9, 2.7, 3.4)}, left={1: 60.0, 2: 60}, restart=50)
    )
    run(w, elastic(1), elastic(2))
    w.now = 1.0
    w.exited(2)
    assert w.job(1).workers < 4
    w.cycle()
    assert "2 GPUs are free, but a change of its size, which costs it about 50 s, does not pay yet" in of(w, 1).size


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (job(1, gpus=2), "2 GPUs: it asks for 2."),
        (job(1, workers=3), "3 workers: it asks for 3."),
        (job(1), "1 worker: it asks for 1."),
        (elastic(1), "2 of 4 GPUs: it asks for 2, and `rigid` changes no job's size while it runs."),
    ],
)
def test_a_size_that_was_asked_for(asked: Job, words: str) -> None:
    assert of(run(World(node("a", gpus=4)), asked), 1).size == words


def test_a_job_that_may_not_be_interrupted_keeps_what_it_has() -> None:
    for asked, why in (
        (Preemptible.NO, "`preemptible: false`"),
        (Preemptible.AUTO, "before a checkpoint of it was seen"),
    ):
        kept = replace(elastic(1).spec, preemptible=asked)
        w = run(World(node("a", gpus=2), policy="afs-l"), Job(JobId(1), kept, "ann", submitted_at=0.0))
        assert of(w, 1).size.startswith("2 of 4 GPUs: it keeps them until it ends, as it may not be interrupted")
        assert why in of(w, 1).size


def test_whole_cores() -> None:
    w = World(node("a", cpus=4), policy="cores-strict")
    run(w, job(1, cpus=1, cpus_max=4))
    assert of(w, 1).size == "4 whole cores: all that it asks for."
    w = World(node("a", cpus=4), policy="cores-proportional")
    run(w, job(1, cpus=1, cpus_max=4), job(2, cpus=1, cpus_max=4))
    assert of(w, 2).size == "2 of 4 whole cores: it gets more as cores of a become free (0 are now), and loses none."


def test_one_node_and_several_with_no_room_on_fewer() -> None:
    w = run(World(node("a", gpus=2), node("b", gpus=2)), job(1, gpus=1, cpus=0, workers=2), job(2, gpus=1, workers=2))
    assert of(w, 1).place == "On a, where `pack` found room for all of it."
    w = run(World(node("a", gpus=2), node("b", gpus=2)), job(1, gpus=1, cpus=0, workers=3))
    assert of(w, 1).place == "2 on a, 1 on b: no fewer nodes have room for its 3 workers (the most on one is 2, on a)."


@pytest.mark.parametrize("preemptible", [Preemptible.YES, Preemptible.NO])
def test_what_a_move_to_fewer_nodes_needs(preemptible: Preemptible) -> None:
    w = World(node("a", gpus=3), node("b", gpus=3), facts=Facts(restart=30.0))
    run(w, *(job(n, gpus=1, cpus=0, workers=2, preemptible=preemptible) for n in (1, 2, 3)))
    assert of(w, 3).place.startswith("1 on a, 1 on b: no fewer nodes have room for its 2 workers")
    w.exited(1)
    head = (
        "1 on a, 1 on b: a has room for all of its 2 workers now. A move there would cost a restart of about 30 s and "
    )
    ends = {
        Preemptible.YES: "this policy moves no job by itself, and `schedulearn migrate 3 a` does at once.",
        Preemptible.NO: "but it may not be interrupted (`preemptible: false`).",
    }
    assert of(w, 3).place.startswith(head + "make it about 11 % faster (assumed)")
    assert of(w, 3).place.endswith(ends[preemptible])


def test_what_is_free_and_goes_to_no_job() -> None:
    class Least(Allocate):
        elastic = True

        def allocate(self, allocation: Allocation) -> None:
            for one in (*allocation.secure(), *allocation.claimants()):
                allocation.give(one, 1)

    w = World(node("a", cpus=2.75))
    w.policy = replace(w.policy, allocate=Least(), stages={**w.policy.stages, "allocate": "least"})
    run(w, job(1, cpus=0.25, workers=(1, 1, 9), preemptible=Preemptible.YES))
    assert of(w, 1).size == (
        "1 of 9 workers: a second would make it 90 % faster (assumed, not measured yet)."
        " 2.5 cores are free, which `least` gives to no job at present."
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_every_policy_has_words_for_each_job_and_nothing_changes(preset: str) -> None:
    workload = load("synthetic:philly?jobs=25&load=4&elastic=true&seed=5", gpus=8)
    sim = Simulation(workload, parse_cluster("2x4"), build_policy(preset), SimOptions(restart_cost=30.0))
    seen = 0
    while (now := sim._next_time()) < math.inf:
        sim.step(now)
        before = [(n.name, n.free, n.closed) for n in sim.state.ledger]
        for one in list(sim.state.jobs.values()):
            told = holding(sim.state, sim.policy, one, now)
            assert bool(told.size and told.place) == bool(one.placements)
            seen += bool(told.size)
        assert [(n.name, n.free, n.closed) for n in sim.state.ledger] == before
    assert seen > len(workload.jobs)


def test_the_stage_adds_a_sentence_of_its_own_for_who_has_and_who_waits() -> None:
    class Priced(Afs):
        def why(self, job: Job, allocation: Allocation) -> str | None:
            return f"Its price is {job.id} of {allocation.slots:g} slots, {allocation.waiting_count} waiting."

    w = World(node("a", gpus=2), policy="afs-l")
    w.policy = replace(w.policy, allocate=Priced())
    run(w, elastic(1, workers=(2, 2, 2)), elastic(2, workers=(2, 2, 2)))
    assert of(w, 1) == Holding("2 GPUs: it asks for 2. Its price is 1 of 2 slots, 1 waiting.", of(w, 1).place)
    assert of(w, 2) == Holding("Its price is 2 of 2 slots, 1 waiting.")
    before = [(n.name, n.free) for n in w.state.ledger]
    of(w, 1)
    assert [(n.name, n.free) for n in w.state.ledger] == before
