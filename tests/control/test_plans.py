"""Pre-emption, resizing, and that nobody starts in a place before the one who held it has left."""

from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.control.allocation import Decision, Grant
from schedulearn.core.control.apply import apply
from schedulearn.core.control.decide import decide
from schedulearn.core.control.reconcile import reconcile
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StartAttempt, StopWorker
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.resources import GPUS
from schedulearn.core.domain.spec import Launcher, Preemptible
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.catalogue.registry import STAGES, StageInfo
from schedulearn.core.policies.stages import Allocate, Place
from support.builders import KILLED, OK, World, job, node


class Known:
    """True durations, as a test gives them."""

    cost = 0.0  # of a restart
    steady = True

    def __init__(self, **seconds: float) -> None:
        self._seconds = {int(name[1:]): value for name, value in seconds.items()}

    def remaining(self, job: Job, now: float) -> float:
        return self._seconds[job.id] - job.ran.at(now)

    def duration(self, job: Job) -> float:
        return self._seconds[job.id]

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(job.shape.workers.max)

    def restart_cost(self, job: Job) -> float:
        return self.cost


def may_be_stopped(number: int, **more: Any) -> Job:
    return job(number, preemptible=Preemptible.YES, **more)


def srtf(**seconds: float) -> World:
    return World(node("a", gpus=2), policy="srtf", facts=Known(**seconds))


def test_a_shorter_job_takes_the_place_of_a_longer_one_once_that_has_left() -> None:
    w = srtf(j1=100, j2=10)
    w.submit(may_be_stopped(1, gpus=2))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=2))
    assert [type(c) for c in w.commands] == [StopWorker]
    assert w.job(1).state is JobState.STOPPING
    assert w.job(2).state is JobState.QUEUED, "it waits until the place is really free"
    w.exited(1, KILLED)
    assert w.commands == [StartAttempt(w.job(2).attempt_id)]
    assert (w.job(1).state, w.job(1).preemptions) == (JobState.QUEUED, 1)
    w.started(2)
    w.exited(2, OK)
    assert w.job(1).state is JobState.STARTING


def test_a_job_that_may_not_be_stopped_is_left_alone() -> None:
    for preemptible in (Preemptible.NO, Preemptible.AUTO):
        w = srtf(j1=100, j2=10)
        w.submit(job(1, gpus=2, preemptible=preemptible))
        w.started(1)
        w.submit(may_be_stopped(2, gpus=2))
        assert w.running() == [1]


def test_auto_means_once_a_checkpoint_was_seen() -> None:
    w = srtf(j1=100, j2=10)
    w.submit(job(1, gpus=2))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=2))
    w.cycle(ev.CheckpointSeen(w.now, JobId(1)))
    assert w.job(1).state is JobState.STOPPING


def test_a_place_promised_to_one_who_waits_goes_to_a_still_shorter_one() -> None:
    w = srtf(j1=100, j2=10, j3=1)
    w.submit(may_be_stopped(1, gpus=2))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=2))
    w.submit(may_be_stopped(3, gpus=2))
    w.exited(1, KILLED)
    assert w.running() == [3]
    assert w.job(2).preemptions == 0, "it never ran"


def test_cancelling_one_who_was_promised_a_place_gives_it_back() -> None:
    w = srtf(j1=100, j2=10)
    w.submit(may_be_stopped(1, gpus=2))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=2))
    w.cycle(ev.CancelAsked(w.now, JobId(2), "ann"))
    w.exited(1, KILLED)
    assert w.running() == [1], "it goes on, in a new attempt"
    assert w.job(1).attempt == 2


def test_an_elastic_job_shrinks_for_another_and_grows_again() -> None:
    w = World(node("a", gpus=4), policy="elastic-fifo")
    w.submit(may_be_stopped(1, gpus=1, workers=(1, 2, 4)))
    w.started(1)
    assert w.job(1).workers == 4
    w.submit(may_be_stopped(2, gpus=1, workers=(1, 1, 4)))
    assert (w.job(1).workers, w.job(2).workers) == (2, 2)
    assert w.job(1).state is JobState.STOPPING
    w.exited(1, KILLED)
    assert w.running() == [1, 2]
    assert w.job(1).resizes == 1
    assert len(w.state.attempts[JobId(1)].workers) == 2
    w.started(1)
    w.started(2)
    w.exited(2, OK)
    w.settle()
    assert len(w.state.attempts[JobId(1)].workers) == 4


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Decision(stops=[JobId(2)]), "nothing that could be taken away"),
        (Decision(grants=[Grant(JobId(9), (Placement(NodeName("a")),))]), "cannot be given anything"),
        (Decision(grants=[Grant(JobId(2), ())]), "got 0 workers"),
        (Decision(grants=[Grant(JobId(2), (Placement(NodeName("a")),) * 3)]), "got 3 workers"),
        (Decision(grants=[Grant(JobId(2), (Placement(NodeName("b")), Placement(NodeName("b"))))]), "b"),
        (Decision(grants=[Grant(JobId(2), (Placement(NodeName("a")), Placement(NodeName("a"))))]), "a"),
    ],
)
def test_a_plan_that_breaks_a_rule_changes_nothing(decision: Decision, why: str) -> None:
    w = World(node("a", cpus=2))
    w.submit(job(1, cpus=1), job(2, cpus=1, workers=2))
    before = next(iter(w.state.ledger)).free
    with pytest.raises(BadPlan, match=why):
        reconcile(w.state, decision, w.now)
    assert next(iter(w.state.ledger)).free == before
    assert w.running() == [1]


def test_what_was_tried_is_kept_for_the_plan_and_undone_if_that_is_refused() -> None:
    w = World(node("a", gpus=2))
    apply(w.state, ev.Submitted(w.now, job(1, gpus=1)))
    state = w.state
    decision = decide(w.policy, state.queue, state.ledger, state.adjustable, w.now, {}, keep=True)
    assert decision.tried, "it is on the ledger already"
    assert state.ledger.free_slots(GPUS) == 1
    decision.grants.append(Grant(JobId(9), (Placement(NodeName("a")),)))
    with pytest.raises(BadPlan):
        reconcile(state, decision, w.now)
    assert state.ledger.free_slots(GPUS) == 2
    w.cycle()
    assert w.running() == [1]
    assert state.ledger.free_slots(GPUS) == 1


def test_a_place_stage_that_crowds_a_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crowded(Place):
        def place(self, job: Any, shape: Any, workers: int, nodes: Any, memory: Any) -> list[NodeName]:
            return [next(iter(nodes)).name] * workers

    monkeypatch.setitem(STAGES["place"], "crowded", StageInfo(Crowded, "does not work"))
    w = World(node("a", memory=1e9), node("b"), stages={"place": "crowded"})
    with pytest.raises(BadPlan, match="has no room"):
        w.submit(job(1, memory=2_000_000_000))
    assert all(n.free == n.node.usable for n in w.state.ledger)


class Greedy(Allocate):
    """All for those who wait."""

    elastic = True

    def allocate(self, allocation: Any) -> float | None:
        for one in allocation.waiting():
            if not allocation.give(one, one.shape.workers.min):
                allocation.refuse(one)
        return None


class Impatient(Allocate):
    def allocate(self, allocation: Any) -> float | None:
        return float(allocation.now)


@pytest.mark.parametrize(
    ("stage", "why"), [(Greedy, "this order interrupts nobody"), (Impatient, "and it is .* already")]
)
def test_an_allocate_stage_that_does_what_it_may_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, stage: type[Allocate], why: str
) -> None:
    monkeypatch.setitem(STAGES["allocate"], "bad", StageInfo(stage, "does not work"))
    w = World(node("a", gpus=4), stages={"allocate": "bad"})
    with pytest.raises(BadPlan, match=why):  # noqa: PT012 - the first is started, or it is refused already
        w.submit(may_be_stopped(1, gpus=1, workers=(1, 2, 4)))
        w.started(1)
        w.submit(may_be_stopped(2, gpus=1))


def test_a_node_that_comes_back_with_less_still_knows_who_is_on_it() -> None:
    w = World(node("a", gpus=4))
    w.submit(job(1, gpus=2))
    w.cycle(ev.NodeSeen(0.0, replace(node("a", gpus=4), cpus_per_gpu=1.0)))
    assert next(iter(w.state.ledger)).free["gpus"] == 2


def elastic(cost: float, **seconds: float) -> World:
    facts = Known(**seconds)
    facts.cost = cost
    return World(node("a", gpus=4), policy="elastic-fifo", facts=facts)


def grown(w: World) -> bool:
    """Whether job 1, which shares four GPUs with job 2, grows once that one has ended."""
    w.submit(may_be_stopped(1, gpus=1, workers=(1, 2, 4)), may_be_stopped(2, gpus=1, workers=(1, 2, 4)))
    w.started(1)
    w.started(2)
    w.now += 1
    w.exited(2, OK)
    return w.job(1).state is JobState.STOPPING


def test_growth_must_pay_for_its_restart() -> None:
    assert grown(elastic(0.0, j1=2, j2=100)), "where restarts are free, always"
    assert not grown(elastic(10.0, j1=2, j2=100)), "two seconds of work are not worth ten of restarting"
    assert grown(elastic(10.0, j1=1000, j2=100))


def test_a_job_is_not_resized_again_and_again() -> None:
    w = elastic(1.0, j1=1e6, j2=1e6, j3=1e6)
    w.submit(may_be_stopped(1, gpus=1, workers=(1, 2, 4)))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=1, workers=(1, 2, 4)))
    w.settle()
    w.started(1)
    w.started(2)
    assert (w.job(1).workers, w.job(1).resizes) == (2, 1)
    w.state.stale = True
    w.state.adjustable["gpus"].pop(JobId(2))  # say it may no longer be changed; nobody has left
    before = w.job(1).resizes
    w.cycle()
    assert w.job(1).resizes == before


def test_shrinking_for_others_needs_no_reason_of_its_own() -> None:
    w = elastic(1e9, j1=5, j2=5)
    w.submit(may_be_stopped(1, gpus=1, workers=(1, 2, 4)))
    w.started(1)
    w.submit(may_be_stopped(2, gpus=1, workers=(1, 1, 4)))
    assert w.job(1).state is JobState.STOPPING


def test_workers_that_must_be_together_wait_for_a_node_with_room_for_all() -> None:
    w = World(node("a", gpus=2), node("b", gpus=3), policy="round-robin")
    w.submit(job(1, gpus=2))
    w.submit(job(2, launcher=Launcher.HOROVOD, gpus=1, workers=3))
    assert {placement.node for placement in w.job(2).placements} == {"b"}
    w.submit(job(3, launcher=Launcher.HOROVOD, gpus=1, workers=2))
    assert w.job(3).state is JobState.QUEUED
    w.started(1)
    w.exited(1)
    assert {placement.node for placement in w.job(3).placements} == {"a"}


@pytest.mark.parametrize(("policy", "nodes"), [("round-robin", "abab"), ("fifo", "aabb")])
def test_a_job_that_stays_on_one_node_goes_where_its_policy_places_it(policy: str, nodes: str) -> None:
    w = World(node("a", gpus=4), node("b", gpus=4), policy=policy)
    for number in range(1, 5):
        w.submit(job(number, launcher=Launcher.HOROVOD, gpus=1, workers=2))
    assert "".join(w.job(number).placements[0].node for number in range(1, 5)) == nodes


@pytest.mark.parametrize("preset", sorted(name for name in PRESETS if build_policy(name).allocate.elastic))
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside one that runs"])
def test_where_memory_does_for_fewer_workers_a_job_runs_with_fewer(preset: str, others: int) -> None:
    w = World(node("a", cpus=64, memory=(4 + others) * 1e9), policy=preset)
    for number in range(others):
        w.submit(job(number + 10, memory=10**9, preemptible=Preemptible.YES))
        w.started(number + 10)
    w.submit(job(1, memory=10**9, workers=(1, 2, 8), preemptible=Preemptible.YES))
    w.settle()
    if not w.job(1).workers:  # a policy that searches now and then
        assert w.state.wake_at is not None
        w.now = w.state.wake_at
        w.cycle(ev.Tick(w.now))
        w.settle()
    assert w.job(1).workers >= 1
