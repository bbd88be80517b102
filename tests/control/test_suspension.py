"""Time-slicing suspends: a job keeps its attempt, its place and its memory, and goes on there when its turn comes."""

from copy import deepcopy
from typing import Any

import pytest

from schedulearn.core.control.allocation import Decision, Grant
from schedulearn.core.control.cycle import next_wake
from schedulearn.core.control.explain import explain
from schedulearn.core.control.reconcile import reconcile
from schedulearn.core.control.restore import restore
from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import PauseWorker, ResumeWorker, StartAttempt, StopWorker
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Job, Placement
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.catalogue.presets import build_policy
from support.builders import BROKEN, KILLED, LOST, OK, World, job, leases_of, node
from support.facts import AssumedFacts

GB = 1_000_000_000
ONE, TWO = JobId(1), JobId(2)


def world(*nodes: Any, **more: Any) -> World:
    return World(*(nodes or [node("a", gpus=1)]), policy="gandiva", **more)


def later(w: World, seconds: float = 60.0) -> None:
    w.now += seconds
    w.cycle()


def two_on_one_device(**more: Any) -> World:
    """Job 1 has had its turn and is suspended; job 2 runs in its place."""
    w = world(**more)
    w.submit(job(1, gpus=1, memory=10 * GB))
    w.started(1)
    w.submit(job(2, gpus=1, memory=20 * GB))
    later(w)
    w.paused(1)
    w.started(2)
    assert (w.running(), w.suspended()) == ([2], [1])
    return w


def held(w: World, number: int) -> list[tuple[Resources, tuple[DeviceId, ...]]]:
    return [(lease.amounts, lease.devices) for lease in leases_of(w.state).values() if lease.worker.job == number]


def ended(w: World, number: int) -> tuple[str, str]:
    last = [e for e in w.history if e.job == number and e.state][-1]
    return str(last.state), last.cause


def restored(w: World) -> State:
    nodes = [n.node for n in w.state.ledger]
    jobs, attempts = deepcopy(list(w.state.jobs.values())), deepcopy(list(w.state.attempts.values()))
    leases = list(leases_of(w.state).values())
    return restore(w.policy.order, AssumedFacts(), jobs, attempts, leases, nodes, deepcopy(w.memory), w.now)


# --- the turn of one ends, that of another begins


def test_it_is_suspended_when_its_turn_is_over_and_the_other_starts_once_it_stands_still() -> None:
    w = world()
    w.submit(job(1, gpus=1, memory=10 * GB))
    w.started(1)
    w.submit(job(2, gpus=1))
    assert w.job(1).state is JobState.RUNNING, "a turn is a quantum"
    later(w)
    assert w.commands == [PauseWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert (w.job(1).state, w.job(1).reason) == (JobState.QUEUED, "suspended: others have their turn")
    assert w.job(2).state is JobState.QUEUED, "the first still computes"
    assert held(w, 1)[0][1] == ("a-gpu0",)
    w.paused(1)
    assert w.commands == [StartAttempt(w.job(2).attempt_id)]
    assert held(w, 1) == [(Resources(memory=10 * GB), ())]
    assert next(iter(w.state.ledger)).free["memory"] == 54e9
    assert w.job(1).preemptions == 1


def test_it_goes_on_in_its_own_place_and_has_all_of_it_again() -> None:
    w = two_on_one_device()
    ran = w.job(1).ran.at(w.now)
    later(w)
    assert w.commands == [PauseWorker(WorkerId(TWO, 1, 0), NodeName("a"))]
    w.paused(2)
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert (w.job(1).state, w.job(1).attempt) == (JobState.RUNNING, 1)
    assert held(w, 1) == [(Resources(gpus=1, cpus=1, memory=10 * GB), ("a-gpu0",))]
    w.now += 10
    assert w.job(1).ran.at(w.now) == ran + 10, "what it waited does not count"
    w.exited(1, OK)
    assert ended(w, 1) == ("succeeded", "finished")
    assert w.running() == [2]
    w.exited(2, OK)
    assert next(iter(w.state.ledger)).free == next(iter(w.state.ledger)).node.usable


def test_jobs_that_may_not_be_stopped_are_suspended_too() -> None:
    w = world()
    w.submit(job(1, gpus=1, preemptible=Preemptible.NO))
    w.started(1)
    w.submit(job(2, gpus=1))
    later(w)
    assert w.suspended() == [1]


def test_one_that_only_starts_is_paused_as_soon_as_it_runs() -> None:
    w = world()
    w.submit(job(1, gpus=1, priority=10))
    w.submit(job(2, gpus=1, priority=90))
    assert w.commands == [PauseWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert w.job(1).state is JobState.QUEUED
    w.started(1)
    assert w.job(1).state is JobState.QUEUED
    w.paused(1)
    assert w.running() == [2]


def test_it_does_not_go_on_before_it_stood_still() -> None:
    """Otherwise the confirmation of the one pause might be taken for that of the next."""
    w = world()
    w.submit(job(1, gpus=1))
    w.started(1)
    w.submit(job(2, gpus=1))
    later(w)
    w.cycle(ev.CancelAsked(w.now, TWO, "ann"))
    assert (w.job(1).placements, w.commands) == ((Placement(NodeName("a"), (DeviceId("a-gpu0"),)),), [])
    w.paused(1)
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]


def test_all_workers_must_stand_still() -> None:
    w = world(node("a", gpus=2))
    w.submit(job(1, gpus=1, workers=2))
    w.started(1)
    w.submit(job(2, gpus=2))
    later(w)
    w.cycle(ev.WorkerPaused(w.now, WorkerId(ONE, 1, 1)))
    assert w.running() == []
    w.cycle(ev.WorkerExited(w.now, WorkerId(ONE, 1, 0), OK))
    assert w.running() == [2], "one stands still, the other has finished"
    w.started(2)
    w.exited(2, OK)
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 1), NodeName("a"))]


# --- who can be where


def test_suspended_jobs_share_their_device_in_turn_although_another_is_idle() -> None:
    """They cannot be moved, but neither do they wait for each other's end."""
    w = world(node("a", gpus=2))
    w.submit(job(1, gpus=1), job(2, gpus=1))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=1))
    later(w)
    w.settle()
    w.started(3)
    assert (w.running(), w.suspended()) == ([1, 3], [2])
    w.exited(1, OK)
    assert w.running() == [3], "the place of job 2 is taken"
    later(w)
    w.settle()
    assert (w.running(), w.suspended()) == ([2], [3])


def test_who_may_be_stopped_moves_to_an_idle_device_instead_of_sharing_one() -> None:
    w = world(node("a", gpus=2))
    w.submit(*(job(number, gpus=1, preemptible=Preemptible.YES) for number in (1, 2)))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=1, preemptible=Preemptible.YES))
    later(w)
    w.settle()
    w.started(3)
    assert (w.running(), w.suspended()) == ([1, 3], [2])
    w.exited(1, OK)
    later(w)
    assert (w.job(3).state, w.job(3).reason) == (JobState.STOPPING, "moves: others have their turn in its place")
    w.settle()
    assert w.running() == [2, 3]
    w.started(3)
    assert (w.job(2).attempt, w.job(3).attempt, w.job(3).migrations) == (1, 2, 1)
    assert (w.where(3), w.job(3).placements[0].devices) == (["a"], ("a-gpu0",))


def test_moving_must_pay() -> None:
    class Dear(AssumedFacts):
        def restart_cost(self, job: Job) -> float:
            return 30.0

        def remaining(self, job: Job, now: float) -> float:
            return 2000.0

    w = world(node("a", gpus=2), facts=Dear())
    w.submit(*(job(number, gpus=1, preemptible=Preemptible.YES) for number in (1, 2)))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=1, preemptible=Preemptible.YES))
    later(w)
    w.settle()
    w.started(3)
    w.exited(1, OK)
    later(w)
    assert w.job(3).state is JobState.QUEUED, "a restart of 30 s is too much for 2000 s of work"


def test_others_are_placed_around_those_who_go_on() -> None:
    w = world(node("a", gpus=2))
    w.submit(job(1, gpus=1), job(2, gpus=1))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=2))
    later(w)
    w.settle()
    w.started(3)
    assert w.suspended() == [1, 2]
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    w.exited(1, KILLED)
    w.submit(job(4, gpus=1))
    later(w)
    w.settle()
    assert w.running() == [2, 4]
    assert {n: w.state.jobs[JobId(n)].placements[0].devices for n in (2, 4)} == {2: ("a-gpu1",), 4: ("a-gpu0",)}


def test_newcomers_do_not_go_where_a_job_is_suspended_while_there_is_room_elsewhere() -> None:
    w = world(node("a", gpus=3))
    w.submit(job(1, gpus=1, workers=2))
    w.submit(job(2, gpus=1, priority=90))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=1, priority=90))
    w.settle()
    w.started(3)
    w.exited(2, OK)
    assert (w.running(), w.suspended()) == ([3], [1]), "one of its two devices is free"
    assert w.submit(job(4, gpus=1)) == [4]
    there = {n: w.state.jobs[JobId(n)].placements[0].devices for n in (3, 4)}
    assert there == {3: ("a-gpu0",), 4: ("a-gpu2",)}
    assert w.submit(job(5, gpus=1)) == [5], "where there is none, they do"


def test_a_suspended_job_does_not_block_others_of_its_shape() -> None:
    w = world(node("a", gpus=1), node("b", gpus=1))
    w.submit(job(1, gpus=1), job(2, gpus=1))
    w.started(1)
    w.started(2)
    w.submit(job(3, gpus=1, priority=90))
    w.settle()
    w.started(3)
    (waits,) = w.suspended()
    other = 3 - waits
    w.exited(other, OK)
    assert w.submit(job(4, gpus=1)) == [4], "there is room for it, though not for the one before it"
    assert w.suspended() == [waits]


def test_memory_that_suspended_jobs_keep_is_not_given_away() -> None:
    w = world(node("a", gpus=1, memory=30 * GB))
    w.submit(job(1, gpus=1, memory=20 * GB))
    w.started(1)
    w.submit(job(2, gpus=1, memory=20 * GB), job(3, gpus=1, memory=10 * GB))
    later(w)
    w.settle()
    assert w.running() == [3], "for job 2 there is not enough memory while job 1 is there"
    w.started(3)
    w.exited(3, OK)
    assert w.running() == [1], "it waits for its end, and holds nobody up meanwhile"
    w.exited(1, OK)
    assert w.running() == [2]


def test_cores_kept_for_free_gpus_do_not_keep_a_job_from_going_on() -> None:
    w = world(node("a", cpus=4, gpus=2, cpus_per_gpu=1.0))
    w.submit(job(1, gpus=2, cpus=1))
    w.submit(job(2, cpus=3))
    w.started(2)
    w.submit(job(3, cpus=3, priority=90))
    w.settle()
    w.started(3)
    w.exited(1, OK)
    w.exited(3, OK)
    assert w.running() == [2], "as a newcomer it would have to leave two cores"


def test_it_cannot_be_given_another_place() -> None:
    w = two_on_one_device()
    before = next(iter(w.state.ledger)).free
    with pytest.raises(BadPlan, match="only where it is"):
        reconcile(w.state, Decision(stops=[TWO], grants=[Grant(ONE, (Placement(NodeName("a")),))]), w.now)
    assert next(iter(w.state.ledger)).free == before


def test_a_plan_that_is_refused_suspends_nobody() -> None:
    w = world(node("a", gpus=2))
    w.submit(job(1, gpus=1, memory=GB), job(2, gpus=2))
    w.started(1)
    before = next(iter(w.state.ledger)).free
    plan = Decision(stops=[ONE], grants=[Grant(TWO, (Placement(NodeName("a"), (DeviceId("a-gpu0"), DeviceId("no"))),))])
    with pytest.raises(BadPlan, match="no room"):
        reconcile(w.state, plan, w.now)
    assert next(iter(w.state.ledger)).free == before
    assert (w.suspended(), w.job(1).workers, w.job(1).state) == ([], 1, JobState.RUNNING)
    assert w.job(1).shape.per_worker["memory"] == GB


# --- what people do meanwhile


def test_a_user_pauses_and_resumes_a_suspended_job() -> None:
    w = two_on_one_device()
    w.cycle(ev.PauseAsked(w.now, ONE, "ann"))
    assert (w.job(1).state, w.commands) == (JobState.PAUSED, [])
    later(w)
    assert w.running() == [2], "nobody waits for the place"
    w.exited(2, OK)
    assert w.suspended() == [1], "not even now"
    assert held(w, 1) == [(Resources(memory=10 * GB), ())]
    w.cycle(ev.ResumeAsked(w.now, ONE, "ann"))
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert w.job(1).state is JobState.RUNNING


def test_one_who_was_resumed_by_its_user_still_has_turns() -> None:
    w = world()
    w.submit(job(1, gpus=1))
    w.started(1)
    w.submit(job(2, gpus=1))
    w.cycle(ev.PauseAsked(w.now, ONE, "ann"))
    later(w, 100)
    assert w.job(2).state is JobState.QUEUED, "who is paused by its user keeps its place"
    w.cycle(ev.ResumeAsked(w.now, ONE, "ann"))
    later(w)
    assert w.suspended() == [1]


@pytest.mark.parametrize(("gpus", "grace"), [(1, 0.0), (0, 30.0)])
def test_cancelling_a_suspended_job(gpus: int, grace: float) -> None:
    """It may not use somebody else's device to save itself; a moment of others' cores does no harm."""
    w = world(node("a", cpus=1, gpus=1))
    w.submit(job(1, gpus=gpus, memory=10 * GB))
    w.started(1)
    w.submit(job(2, gpus=gpus))
    later(w)
    w.paused(1)
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), NodeName("a"), grace)]
    assert next(iter(w.state.ledger)).free["memory"] == 54e9, "until its end is confirmed"
    w.exited(1, KILLED)
    assert ended(w, 1) == ("cancelled", "cancelled by ann")
    assert next(iter(w.state.ledger)).free["memory"] == 64e9


def test_deleting_a_suspended_job() -> None:
    w = two_on_one_device()
    w.cycle(ev.DeleteAsked(w.now, ONE, "ann"))
    w.exited(1, KILLED)
    assert w.changes.forgotten == [1]
    assert held(w, 1) == []


def test_its_priority_counts_while_it_is_suspended() -> None:
    w = two_on_one_device()
    w.cycle(ev.UpdateAsked(w.now, ONE, "ann", {"priority": 90}))
    w.paused(2)
    assert w.running() == [1], "at once"


def test_only_running_time_counts_for_the_time_limit() -> None:
    w = world()
    w.submit(job(1, gpus=1, time_limit=90.0))
    w.started(1)
    w.submit(job(2, gpus=1))
    later(w)
    w.settle()
    w.started(2)
    later(w, 59)
    assert w.suspended() == [1]
    later(w, 1)
    w.settle()
    assert w.job(1).state is JobState.RUNNING
    later(w, 29)
    assert w.job(1).state is JobState.RUNNING
    later(w, 1)
    assert (w.job(1).state, w.job(1).reason) == (JobState.STOPPING, "its time limit of 1 min 30 s was reached")


# --- what may happen meanwhile


@pytest.mark.parametrize(
    ("outcome", "restarts", "state"),
    [(KILLED, 0, "failed"), (OK, 0, "succeeded"), (LOST, 0, "queued"), (BROKEN, 1, "queued")],
)
def test_a_suspended_worker_ends(outcome: Any, restarts: int, state: str) -> None:
    """Killed from outside, or just finished when it was told to stand still."""
    w = world()
    w.submit(job(1, gpus=1, memory=10 * GB, max_restarts=restarts))
    w.started(1)
    w.submit(job(2, gpus=1))
    later(w)
    w.paused(1)
    w.exited(1, outcome)
    assert ended(w, 1)[0] == state
    assert (w.running(), w.suspended()) == ([2], [])
    assert not w.state.queue.suspended["gpus"]
    assert next(iter(w.state.ledger)).free["memory"] == 64e9
    if state == "queued":
        assert (w.job(1).shape.per_worker["memory"], w.job(1).suspended_at) == (10 * GB, ())


def test_one_of_several_suspended_workers_dies() -> None:
    w = world(node("a", gpus=2))
    w.submit(job(1, gpus=1, workers=2))
    w.started(1)
    w.submit(job(2, gpus=2))
    later(w)
    w.paused(1)
    w.exited(1, KILLED, rank=1)
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), NodeName("a"), 0.0)]
    w.exited(1, KILLED, rank=0)
    assert ended(w, 1) == ("failed", "killed by SIGKILL")


def test_a_draining_node_finishes_what_is_suspended_there() -> None:
    w = two_on_one_device()
    w.cycle(ev.DrainAsked(w.now, NodeName("a"), "ann", True))
    later(w)
    w.settle()
    assert (w.running(), w.suspended()) == ([1], [2]), "they still take turns"
    w.exited(1, OK)
    assert w.running() == [2]
    assert w.submit(job(3, gpus=1)) == []


def test_nobody_goes_on_on_a_node_that_is_lost() -> None:
    w = two_on_one_device()
    w.cycle(ev.NodeSeen(w.now, node("b", gpus=1)))
    w.cycle(ev.NodeLost(w.now, NodeName("a"), "no answer"))
    w.exited(2, BROKEN)
    assert w.running() == []
    w.cycle(ev.NodeSeen(w.now, node("a", gpus=1)))
    assert w.running() == [1], "it was only the network"


def test_a_node_that_comes_back_knows_what_is_suspended_there() -> None:
    w = two_on_one_device()
    w.cycle(ev.NodeSeen(w.now, node("a", gpus=1, cpus_per_gpu=1.0)))
    free = next(iter(w.state.ledger)).free
    assert (free["memory"], free["gpus"]) == (64e9 - 30 * GB, 0)


# --- after a crash, and under another policy


def test_after_a_crash_the_suspended_stay_suspended() -> None:
    w = two_on_one_device()
    before = next(iter(w.state.ledger)).free
    w.state = restored(w)
    w.cycle()
    assert (w.running(), w.suspended()) == ([2], [1])
    assert next(iter(w.state.ledger)).free == before
    later(w)
    w.paused(2)
    assert w.suspended() == [1, 2], "it goes on only when it is known to stand still"
    w.paused(1)
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]


def test_a_crash_before_the_pause_was_confirmed() -> None:
    w = world()
    w.submit(job(1, gpus=1))
    w.started(1)
    w.submit(job(2, gpus=1))
    later(w)
    w.state = restored(w)
    w.cycle()
    assert (w.running(), w.suspended()) == ([], [1]), "it may compute still"
    assert held(w, 1)[0][1] == ("a-gpu0",)
    w.paused(1)
    assert w.running() == [2]


@pytest.mark.parametrize("ask", [ev.PauseAsked, ev.CancelAsked])
def test_a_crash_while_one_is_paused_or_cancelled_that_was_suspended(ask: Any) -> None:
    w = two_on_one_device()
    w.cycle(ask(w.now, ONE, "ann"))
    before = next(iter(w.state.ledger)).free
    w.state = restored(w)
    assert next(iter(w.state.ledger)).free == before
    assert (w.running(), w.suspended()) == ([2], [1])


@pytest.mark.parametrize("preset", ["fifo", "srtf", "tiresias", "elastic-fifo", "afs-l"])
def test_a_policy_that_does_not_suspend_lets_them_go_on_where_they_are(preset: str) -> None:
    w = two_on_one_device()
    use(w, preset)
    later(w, 4000)
    assert w.running() == [2], "who may not be stopped is not stopped"
    w.exited(2, OK)
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert ONE not in w.state.adjustable["gpus"]


def test_under_a_policy_that_stops_jobs_a_suspended_one_takes_back_its_place() -> None:
    w = world()
    w.submit(job(1, gpus=1, deadline=1000.0))
    w.started(1)
    w.submit(job(2, gpus=1, preemptible=Preemptible.YES))
    later(w)
    w.settle()
    w.started(2)
    use(w, "edf")
    later(w)
    assert w.commands == [StopWorker(WorkerId(TWO, 1, 0), NodeName("a"), 30.0)]
    w.exited(2, KILLED)
    assert (w.job(1).state, w.job(1).attempt) == (JobState.RUNNING, 1)


def use(w: World, preset: str) -> None:
    w.policy = build_policy(preset)
    w.state.set_order(w.policy.order, w.now)


def test_a_switch_of_policy_says_anew_who_may_be_interrupted() -> None:
    w = world()
    w.submit(job(1, gpus=1, preemptible=Preemptible.NO))
    w.started(1)
    use(w, "edf")
    w.submit(job(2, gpus=1, deadline=1000.0))
    assert (w.job(1).state, w.commands) == (JobState.RUNNING, [])
    use(w, "gandiva")
    w.cycle()
    later(w)
    assert w.suspended() == [1]


def test_who_may_not_be_stopped_is_neither_resized_nor_suspended_where_sizes_change() -> None:
    w = world(node("a", gpus=2), stages={"allocate": "elastic"})
    w.submit(job(1, gpus=1, workers=(1, 1, 2), preemptible=Preemptible.NO))
    w.started(1)
    assert w.job(1).workers == 2
    w.submit(job(2, gpus=1))
    later(w)
    assert (w.job(1).state, w.job(1).workers) == (JobState.RUNNING, 2)


def test_a_switch_of_policy_leaves_no_marks_of_another_order() -> None:
    """Not even on jobs that no policy may touch at present: they may come to it later."""
    w = World(node("a", gpus=1))
    w.submit(job(1, gpus=1))
    w.started(1)
    use(w, "tiresias")
    w.submit(job(2, gpus=1))
    w.cycle(ev.CheckpointSeen(w.now, ONE))
    use(w, "gandiva")
    w.cycle()
    later(w)
    assert w.suspended() == [1]


# --- turns


def test_nobody_wakes_up_for_the_end_of_a_turn_while_nobody_waits() -> None:
    w = world()
    w.submit(job(1, gpus=1))
    w.started(1)
    w.cycle()
    assert next_wake(w.state) is None
    later(w, 250)
    w.submit(job(2, gpus=1))
    assert next_wake(w.state) == 250.0, "its turn is long over"
    w.cycle()
    assert w.suspended() == [1]
    w.settle()
    w.started(2)
    w.cycle()
    assert next_wake(w.state) == 310.0
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    w.exited(1, KILLED)
    later(w)
    assert (w.commands, w.job(2).state, next_wake(w.state)) == ([], JobState.RUNNING, None)
    assert not w.changes, "nothing to write"


# --- in words


def words(w: World, number: int) -> str:
    return explain(w.state, w.policy, w.job(number), w.now, lambda _: None).text


def test_explain_says_where_it_is_suspended_and_who_is_in_its_place() -> None:
    w = two_on_one_device()
    assert words(w, 1) == (
        "It is suspended on a, where it keeps its memory and will go on; job 2 (job) is in its place. "
        "It is first in the queue: its turn comes after theirs."
    )
    later(w)
    assert words(w, 1) == "Its place is being freed: it starts as soon as others have left."


def test_estimates_know_of_the_memory_that_is_kept() -> None:
    w = two_on_one_device()
    use(w, "fifo")
    w.submit(job(3, memory=60 * GB))
    found = explain(w.state, w.policy, w.job(3), w.now, lambda _: Estimate(100, 100, 100))
    assert found.estimate == Estimate(200, 200, 200), "first job 2 ends, then job 1"


def test_explain_of_a_job_that_never_ran_under_time_slicing() -> None:
    w = two_on_one_device()
    w.submit(job(3, gpus=1))
    assert words(w, 3) == (
        "It needs 1 GPU and 1 core on one node; the most free on one node is 0 GPUs. "
        "It is number 2 in the queue: its turn comes after theirs."
    )


def many(count: int) -> list[Job]:
    return [job(number, gpus=1, memory=GB) for number in range(1, count + 1)]


def test_everybody_has_as_many_turns_as_the_others() -> None:
    w = world(node("a", gpus=2), node("b", gpus=1))
    w.submit(*many(7))
    for _ in range(140):
        for number in w.running():
            w.started(number)
        later(w, 30)
        w.settle()
    ran = [one.ran.at(w.now) for one in w.state.jobs.values()]
    assert len(ran) == 7
    assert max(one.attempt for one in w.state.jobs.values()) == 1, "nobody was ever started again"
    assert min(ran) > 0.5 * sum(ran) / len(ran)
