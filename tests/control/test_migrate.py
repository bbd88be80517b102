"""Moving a job to another node: asked for by a person or a stage, promised first, made by stop and start."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from schedulearn.core.control.explain import explain
from schedulearn.core.control.restore import restore
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StartAttempt, StopWorker
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import HistoryEvent, Placement
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.core.policies.catalogue.registry import STAGES, StageInfo
from schedulearn.core.policies.stages import Board, Memory, Moves
from support.builders import BROKEN, KILLED, LOST, World, job, leases_of, node
from support.facts import AssumedFacts

ONE, A, B = JobId(1), NodeName("a"), NodeName("b")


def world(**more: Any) -> World:
    """Job 1 runs with two cores on `a`; `b` is free."""
    w = World(node("a", cpus=2), node("b", cpus=2))
    w.submit(job(1, cpus=2, grace=7.0, **more))
    w.started(1)
    return w


def ask(w: World, number: int = 1, to: str = "b") -> None:
    w.cycle(ev.MigrateAsked(w.now, JobId(number), NodeName(to), "ann"))


def told(w: World, kind: str) -> list[HistoryEvent]:
    return [event for event in w.history if event.kind == kind]


def free(w: World, name: str) -> float:
    ledger = w.state.ledger.node(NodeName(name))
    assert ledger
    return ledger.free["cpus"]


def again(w: World) -> World:
    """The same world after a restart of the service: what the store keeps."""
    copy = World(*(n.node for n in w.state.ledger))
    jobs, attempts = deepcopy(list(w.state.jobs.values())), deepcopy(list(w.state.attempts.values()))
    for one in jobs:
        one.placements, one.checkpointed = (), False
    nodes = [n.node for n in w.state.ledger]
    leases = list(leases_of(w.state).values())
    copy.state = restore(w.policy.order, AssumedFacts(), jobs, attempts, leases, nodes, deepcopy(w.memory), w.now)
    copy.now = w.now
    copy.cycle()
    return copy


# --- the ordinary course


def test_it_is_promised_stopped_and_started_over_there() -> None:
    w = world()
    w.now = 100.0
    ask(w)
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), A, 7.0)]
    assert (w.job(1).state, w.job(1).stop) == (JobState.STOPPING, StopReason.MIGRATE)
    assert w.job(1).reason == "moves to b, as ann asked"
    assert free(w, "b") == 0, "its place is kept from now on"
    assert w.submit(job(2, cpus=1)) == [2]
    assert w.job(2).placements == (Placement(A),), "what it leaves is promised to the next"
    assert 2 not in w.running(), "who starts only when it has left"
    w.now = 103.0
    w.exited(1, KILLED)
    assert w.where(1) == ["b"]
    assert w.where(2) == ["a"]
    assert w.job(1).migrations == 0, "it is not there yet"
    w.now = 104.5
    w.started(1)
    assert (w.job(1).migrations, w.job(1).migration_seconds, w.job(1).move) == (1, 4.5, None)
    w.cycle()
    (event,) = told(w, "migrated")
    assert event.cause == "moved from a to b; 4.5 s lost"
    assert event.data == {"from": ["a"], "to": ["b"], "seconds": 4.5}


def test_all_workers_go_and_get_devices_of_their_own() -> None:
    w = World(node("a", gpus=2), node("b", gpus=4))
    w.submit(job(1, gpus=1, workers=2))
    w.started(1)
    ask(w)
    w.exited(1, KILLED, rank=1)
    assert w.where(1) == ["a", "a"], "one of them is still there"
    w.exited(1, KILLED, rank=0)
    assert w.where(1) == ["b", "b"]
    assert [worker.devices for worker in w.state.attempts[ONE].workers] == [("b-gpu0",), ("b-gpu1",)]


def test_a_job_on_several_nodes_is_brought_together_and_its_own_place_there_counts_as_free() -> None:
    w = World(node("a", gpus=2), node("b", gpus=2))
    w.submit(*(job(number, gpus=1) for number in (1, 2, 3, 4)))
    w.exited(2)
    w.exited(4)
    w.submit(job(5, gpus=1, workers=2))
    w.started(5)
    assert sorted(w.where(5)) == ["a", "b"]
    ask(w, 5, "b")
    assert "b has no room for its 2 workers" in told(w, "not_migrated")[-1].cause
    w.exited(3)
    ask(w, 5, "b")
    w.exited(5, KILLED)
    assert w.where(5) == ["b", "b"]


def test_who_is_being_cancelled_holds_its_place_until_its_end() -> None:
    w = world()
    w.submit(job(2, cpus=2))
    w.cycle(ev.CancelAsked(w.now, JobId(2), "ann"))
    ask(w)
    assert "no room" in told(w, "not_migrated")[-1].cause
    w.exited(2, KILLED)
    ask(w)
    assert w.job(1).state is JobState.STOPPING


# --- what cannot be


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("nowhere", "there is no node 'nowhere' (allowed: a node with room: b)"),
        ("a", "job 1 runs on a already (allowed: a node with room: b)"),
        ("small", "small could not hold its worker even if it were empty (allowed: a node with room: b)"),
        ("draining", "draining is draining"),
        ("lost", "lost is lost"),
    ],
)
def test_a_wrong_target_is_told_and_changes_nothing(to: str, why: str) -> None:
    w = World(node("a", cpus=2), node("b", cpus=2), node("small", cpus=1), node("draining"), node("lost"))
    w.submit(job(1, cpus=2))
    w.started(1)
    w.cycle(ev.DrainAsked(0.0, NodeName("draining"), "ann", True), ev.NodeLost(0.0, NodeName("lost"), "gone"))
    ask(w, to=to)
    assert w.commands == []
    assert (w.job(1).state, w.job(1).move) == (JobState.RUNNING, None)
    (event,) = told(w, "not_migrated")
    assert event.cause.startswith(f"not moved to {to}, as ann asked: node: {why}")


def test_only_a_running_job_can_be_moved() -> None:
    w = World(node("a", cpus=2), node("b", cpus=2))
    w.submit(job(1, cpus=2), job(2, cpus=2), job(3, cpus=2))
    for number, state in ((3, "queued"), (1, "starting")):
        ask(w, number)
        assert f"job {number} cannot be moved: it {JobState(state).in_words}" in told(w, "not_migrated")[-1].cause
    w.started(1)
    w.cycle(ev.PauseAsked(w.now, ONE, "ann"))
    ask(w)
    assert "it is paused" in told(w, "not_migrated")[-1].cause
    ask(w, 77)
    assert len(told(w, "not_migrated")) == 3, "of a job that is gone nobody is told"


# --- what may come between


def test_a_target_that_is_lost_before_it_has_left_sends_it_to_the_queue() -> None:
    w = world()
    ask(w)
    w.cycle(ev.NodeLost(w.now, B, "does not answer"))
    assert told(w, "not_migrated")[-1].cause == "not moved to b: node b was lost"
    w.exited(1, KILLED)
    assert w.where(1) == ["a"], "back where it was: there is room"
    w.started(1)
    assert (w.job(1).migrations, w.job(1).migration_seconds) == (0, 0.0)


class _Long(AssumedFacts):
    def remaining(self, job: Any, now: float) -> float:
        return 100.0 / job.id


def test_the_source_may_be_lost_meanwhile() -> None:
    w = world()
    ask(w)
    w.cycle(ev.NodeLost(w.now, A, "does not answer"))
    w.exited(1, LOST)
    assert w.where(1) == ["b"]
    w.started(1)
    assert w.job(1).migrations == 1


def test_cancelled_on_the_way() -> None:
    w = world()
    ask(w)
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    w.exited(1, KILLED)
    assert told(w, "cancel")
    assert (free(w, "a"), free(w, "b")) == (2, 2)


def test_one_that_cannot_start_over_there_is_no_migration() -> None:
    w = world(max_restarts=1)
    ask(w)
    w.exited(1, KILLED)
    w.exited(1, BROKEN)
    assert (w.job(1).state, w.job(1).restarts) == (JobState.QUEUED, 1)
    assert (w.job(1).migrations, w.job(1).move) == (0, None)


def test_a_more_urgent_job_takes_the_promised_place() -> None:
    w = World(node("a", cpus=2), node("b", cpus=2), policy="srtf", facts=_Long())
    w.submit(job(1, cpus=2, preemptible=Preemptible.YES))
    w.started(1)
    w.cycle(ev.DrainAsked(0.0, A, "ann", True))
    ask(w)
    w.submit(job(2, cpus=2))
    assert w.where(2) == ["b"], "nobody is there yet, so it starts at once"
    assert told(w, "not_migrated")[-1].cause == "not moved to b: others go first"
    w.exited(1, KILLED)
    assert (w.job(1).state, w.job(1).stop, w.job(1).migrations) == (JobState.QUEUED, None, 0)
    _ledger_is_right(w)


def _ledger_is_right(w: World) -> None:
    for ledger in w.state.ledger:
        promised = sum(
            j.shape.per_worker["cpus"] for j in w.state.jobs.values() for s in j.placements if s.node == ledger.name
        )
        assert ledger.free["cpus"] == ledger.node.capacity["cpus"] - promised


# --- over a restart of the service


def test_a_restart_while_it_stops_forgets_nothing() -> None:
    w = world()
    w.now = 10.0
    ask(w)
    w = again(w)
    assert free(w, "b") == 0
    w.now = 12.0
    w.exited(1, KILLED)
    w = again(w)
    assert w.where(1) == ["b"]
    w.now = 13.0
    w.started(1)
    assert (w.job(1).migrations, w.job(1).migration_seconds) == (1, 3.0)


def test_a_restart_while_it_waits_for_the_place_forgets_nothing() -> None:
    w = _waits_for_its_place()
    w = again(w)
    assert ONE in w.state.pending
    assert ONE not in w.state.queue
    w.exited(2, KILLED)
    assert w.where(1) == ["b"]


def test_a_target_that_was_lost_while_nobody_looked_sends_it_to_the_queue() -> None:
    w = world()
    ask(w)
    w.state.ledger.set_node_state(B, NodeState.LOST)
    w = again(w)
    assert w.job(1).move is None
    w.exited(1, KILLED)
    assert w.where(1) == ["a"]


def _waits_for_its_place() -> World:
    """Job 1 has left a; on b job 2 still holds what was promised to job 1."""
    w = World(node("a", cpus=2), node("b", cpus=2), node("c", cpus=2))
    w.submit(job(1, cpus=2), job(2, cpus=2))
    w.started(1)
    w.started(2)
    ask(w, 2, "c")
    ask(w, 1, "b")
    w.exited(1, KILLED)
    assert (w.job(1).state, w.running()) == (JobState.QUEUED, [2])
    return w


@pytest.mark.parametrize("event", [ev.NodeLost(0.0, B, "gone"), ev.DrainAsked(0.0, B, "ann", True)])
def test_who_waits_for_a_place_that_is_lost_or_drained_goes_to_the_queue(event: ev.Event) -> None:
    w = _waits_for_its_place()
    w.cycle(event)
    assert told(w, "not_migrated")
    assert w.where(1) == ["a"]
    _ledger_is_right(w)


# --- in words


def test_explain_names_the_stage() -> None:
    w = world()
    ask(w)
    found = explain(w.state, w.policy, w.job(1), w.now, lambda _: None)
    assert (found.text, found.stage) == ("It moves from a to b: it is being stopped where it was.", "migrate")
    w = _waits_for_its_place()
    found = explain(w.state, w.policy, w.job(1), w.now, lambda _: None)
    assert found.text == "It moves from a to b: it starts there as soon as others have left."
    assert found.stage == "migrate"
    w.exited(2, KILLED)
    found = explain(w.state, w.policy, w.job(1), w.now, lambda _: None)
    assert (found.text, found.stage) == ("It moves from a to b: its workers are being started.", "migrate")


# --- by a stage


class Told:
    """A stage that says what the test wants."""

    answer: Moves = Moves()

    def migrate(self, board: Board, memory: Memory) -> Moves:
        memory["asked"] = memory.get("asked", 0) + 1
        return self.answer if all(number in {j.id for j in board.jobs()} for number in self.answer.to) else Moves()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Told]]:
    monkeypatch.setitem(STAGES["migrate"], "told", StageInfo(Told, "as it is told"))
    yield Told
    Told.answer = Moves()


def movers(stage: type[Told], to: Mapping[int, list[str]], preemptible: Preemptible = Preemptible.YES) -> World:
    """Jobs 1 on `a`, 2 on `b`, both with two cores; the stage wants this."""
    w = World(node("a", cpus=2), node("b", cpus=2), node("c", cpus=1), stages={"migrate": "told"})
    w.submit(job(1, cpus=2, preemptible=preemptible), job(2, cpus=2, preemptible=preemptible))
    w.started(1)
    w.started(2)
    stage.answer = Moves({JobId(i): [NodeName(n) for n in names] for i, names in to.items()}, why="for fun")
    w.state.stale = True
    return w


def test_two_jobs_may_change_places(stage: type[Told]) -> None:
    w = movers(stage, {1: ["b"], 2: ["a"]})
    w.cycle()
    assert [type(command) for command in w.commands] == [StopWorker, StopWorker]
    assert w.job(1).reason == "moves to b (told: for fun)"
    stage.answer = Moves()
    w.exited(1, KILLED)
    assert w.running() == [2], "b is not free yet"
    w.exited(2, KILLED)
    assert {type(command) for command in w.commands} == {StartAttempt}
    assert (w.where(1), w.where(2)) == (["b"], ["a"])


@pytest.mark.parametrize(
    ("to", "preemptible", "why"),
    [
        ({1: ["b"]}, Preemptible.YES, "no room"),
        ({1: ["nowhere"]}, Preemptible.YES, "no room"),
        ({1: ["b", "b"]}, Preemptible.YES, "2 places"),
        ({1: ["b"], 2: ["a"]}, Preemptible.NO, "may not be moved"),
        ({1: ["b"], 2: ["a"]}, Preemptible.AUTO, "may not be moved"),
    ],
)
def test_a_stage_that_may_not_is_refused_whole(stage: type[Told], to: Any, preemptible: Preemptible, why: str) -> None:
    w = movers(stage, to, preemptible)
    asked = w.memory.get("asked")
    with pytest.raises(BadPlan, match=why):
        w.cycle()
    assert w.memory.get("asked") == asked
    assert [w.job(i).state for i in (1, 2)] == [JobState.RUNNING] * 2
    _ledger_is_right(w)


def test_a_job_on_the_move_is_left_alone(stage: type[Told]) -> None:
    w = movers(stage, {1: ["b"], 2: ["a"]})
    w.cycle()
    w.state.stale = True
    with pytest.raises(BadPlan, match="may not be moved"):
        w.cycle()


def test_a_stage_is_asked_again_when_it_wants(stage: type[Told]) -> None:
    w = World(node("a"), stages={"migrate": "told"})
    w.submit(job(1))
    stage.answer = Moves(wake_at=50.0)
    w.state.stale = True
    w.cycle()
    asked = w.memory["asked"]
    for now, times in ((49.0, 0), (50.0, 1)):
        w.now = now
        w.cycle()
        assert w.memory["asked"] == asked + times


def test_time_counts_on_after_a_restart_with_a_clock_that_was_set_back() -> None:
    w = world()
    w.now = 4000.0
    w.submit(job(1))
    w.started(1)
    w.now += 10.0
    w.now -= 3600.0
    later = again(w)
    assert later.job(1).ran.at(later.now + 5.0) == 5.0
