"""Workers that come and go while their job runs on: what follows from each event, as tables."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from schedulearn.core.control.explain import explain
from schedulearn.core.control.live_resize import may_grow_at
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import Regroup, ResumeWorker, StartAttempt, StartWorkers, StopWorker
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import Launcher, Preemptible, Workers
from schedulearn.core.domain.states import JobState, StopReason
from support.builders import BROKEN, KILLED, LOST, OK, World, job, leases_of, node
from support.facts import AssumedFacts

NOT_STARTED = Outcome(Ending.NOT_STARTED, detail="no such file")
GRACE = 30.0  # of a job that does not say otherwise


def resizable(number: int, workers: tuple[int, int, int] = (1, 1, 3), **more: Any) -> Job:
    more.setdefault("preemptible", Preemptible.YES)
    return job(number, workers=workers, launcher=more.pop("launcher", Launcher.ELASTIC), **more)


def world(cpus: float = 3, **more: Any) -> World:
    """Jobs share its cores out evenly, and grow into what is left."""
    return World(node("a", cpus=cpus), policy=more.pop("policy", "elastic-fifo"), **more)


def running(cpus: float = 3, **more: Any) -> World:
    """With job 1, which has all the cores that it may have."""
    w = world(cpus)
    w.submit(resizable(1, **more))
    w.started(1)
    w.cycle()
    return w


def regroups(w: World) -> dict[str, Group]:
    return {str(c.worker): c.group for c in w.commands if isinstance(c, Regroup)}


def stops(w: World) -> dict[str, float]:
    return {str(c.worker): c.grace for c in w.commands if isinstance(c, StopWorker)}


def generation(w: World, number: int = 1) -> int:
    return w.state.attempts[JobId(number)].generation


def causes(w: World, kind: str) -> list[str]:
    return [event.cause for event in w.history if event.kind == kind]


# --- resized by a policy


def test_a_running_job_shrinks_without_a_restart_and_the_newcomer_waits_for_who_leaves() -> None:
    w = running()
    assert w.crew(1) == [0, 1, 2]
    w.submit(job(2))
    assert w.crew(1) == [0, 1], "of equal ones the highest rank leaves"
    assert regroups(w) == dict.fromkeys(("1.1.0", "1.1.1", "1.1.2"), Group(1, (0, 1)))
    assert stops(w) == {}
    assert 2 not in w.state.attempts, "its place is not free yet"
    assert (w.job(1).state, w.job(1).resizes, w.job(1).attempt) == (JobState.RUNNING, 1, 1)
    assert causes(w, "resized") == ["shrinks from 3 to 2 workers without a restart"]
    w.leave(1)
    assert [type(c) for c in w.commands] == [StartAttempt]
    assert not w.state.shrinking


def test_it_grows_again_with_new_ranks() -> None:
    w = running()
    w.submit(job(2))
    w.leave(1)
    w.started(2)
    w.exited(2)
    assert w.crew(1) == [0, 1, 3], "a rank is never used twice"
    attempt = w.state.attempts[JobId(1)]
    assert [c for c in w.commands if isinstance(c, StartWorkers)] == [StartWorkers(attempt.id, (3,))]
    assert regroups(w) == dict.fromkeys(("1.1.0", "1.1.1"), Group(2, (0, 1, 3)))
    assert causes(w, "resized")[-1] == "grows from 2 to 3 workers without a restart"
    assert [worker.id.rank for worker in attempt.workers] == [0, 1, 2, 3]
    assert WorkerId(JobId(1), 1, 3) in leases_of(w.state)
    assert w.job(1).state is JobState.RUNNING


def test_growth_waits_until_the_place_is_really_free() -> None:
    w = World(node("a", cpus=3), policy="elastic-fifo")
    w.submit(resizable(1, (1, 1, 2)))
    w.started(1)
    w.submit(job(2, preemptible=Preemptible.YES))
    w.started(2)
    w.cycle(ev.CancelAsked(w.now, JobId(2), "ann"))  # it holds its core until it has ended
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"workers": {"min": 1, "want": 1, "max": 3}}))
    assert w.crew(1) == [0, 1]
    w.exited(2, KILLED)
    assert w.crew(1) == [0, 1, 2]


def test_one_that_grows_into_the_place_of_one_who_leaves_waits_for_that() -> None:
    w = world(4)
    w.submit(resizable(1, (1, 1, 4)), resizable(2, (1, 1, 1)))
    w.started(1)
    w.started(2)
    w.cycle()
    assert (w.crew(1), w.crew(2)) == ([0, 1, 2], [0])
    w.cycle(
        ev.UpdateAsked(w.now, JobId(1), "ann", {"workers": {"min": 1, "want": 1, "max": 2}}),
        ev.UpdateAsked(w.now, JobId(2), "ann", {"workers": {"min": 1, "want": 1, "max": 2}}),
    )
    assert (w.crew(1), w.crew(2)) == ([0, 1], [0]), "promised, but not free"
    assert list(w.state.growing) == [2]
    assert w.job(2).workers == 2
    w.leave(1)
    assert w.crew(2) == [0, 1]
    assert not w.state.growing


def test_one_that_does_not_leave_in_time_is_killed() -> None:
    w = running()
    w.submit(job(2))
    w.now = GRACE - 0.1
    w.cycle()
    assert stops(w) == {}
    w.now = GRACE
    w.cycle()
    assert stops(w) == {"1.1.2": 0.0}
    w.exited(1, KILLED, rank=2)
    assert w.job(1).state is JobState.RUNNING, "how a worker ends that was told to leave is of no concern"
    assert 2 in w.state.attempts


def test_a_newcomer_that_has_not_started_is_stopped_at_once() -> None:
    w = running()
    w.submit(job(2))
    w.leave(1)
    w.started(2)
    w.exited(2)
    assert w.crew(1) == [0, 1, 3]
    w.submit(job(3))
    assert w.crew(1) == [0, 1]
    assert stops(w) == {"1.1.3": GRACE}


def test_a_job_that_is_still_starting_is_resized_by_stop_and_start() -> None:
    w = world()
    w.submit(resizable(1))
    w.submit(job(2))
    assert w.job(1).stop is StopReason.RESIZE
    assert generation(w) == 0


def test_others_are_resized_by_stop_and_start() -> None:
    w = running(launcher=Launcher.TORCHRUN)
    w.submit(job(2))
    assert w.job(1).stop is StopReason.RESIZE


def test_service_is_counted_by_who_works() -> None:
    w = running()
    assert w.job(1).attained.rate == 3
    w.now = 10.0
    w.submit(job(2))
    assert w.job(1).attained == (30.0, 10.0, 2.0)
    assert w.job(1).ran == (10.0, 10.0, 1.0)


# --- losses


@pytest.mark.parametrize("outcome", [KILLED, BROKEN, LOST, NOT_STARTED, Outcome(Ending.OUT_OF_MEMORY, signal=9)])
def test_the_others_go_on_when_one_is_lost(outcome: Outcome) -> None:
    w = running()
    w.exited(1, outcome, rank=1)
    assert (w.job(1).state, w.job(1).attempt, w.crew(1)) == (JobState.RUNNING, 1, [0, 2])
    assert regroups(w) == dict.fromkeys(("1.1.0", "1.1.2"), Group(1, (0, 2)))
    assert causes(w, "worker_lost") == [f"worker 1.1.1 {outcome.words()}; the other 2 go on"]
    assert w.job(1).workers == 2, "its place is given back"
    assert w.job(1).restarts == 0


def test_it_grows_again_only_after_a_time_that_doubles() -> None:
    w = running()
    for lost, wait in ((1, 30.0), (3, 60.0), (4, 120.0)):
        began = w.now
        w.exited(1, KILLED, rank=lost)
        w.now = began + wait - 0.1
        w.cycle()
        assert len(w.crew(1)) == 2, "too soon"
        assert w.state.wake_at == began + wait
        w.now = began + wait
        w.cycle()
        assert len(w.crew(1)) == 3
        w.started(1)


def test_explain_says_when_it_may_grow_again() -> None:
    w = running()
    w.exited(1, KILLED, rank=1)
    w.now = 10.0
    text = explain(w.state, w.policy, w.job(1), w.now, lambda _: None).text
    assert text == "It has run for 10 s. It may grow again in 20 s: it lost a worker."
    w.submit(job(2), job(3))
    assert "1 worker is leaving." in explain(w.state, w.policy, w.job(1), w.now, lambda _: None).text


@pytest.mark.parametrize(
    ("workers", "rank", "launcher"),
    [
        ((3, 3, 3), 1, Launcher.ELASTIC),  # too few would be left
        ((1, 1, 3), 0, Launcher.HOROVOD),  # nobody runs the launcher any more
        ((1, 1, 3), 1, Launcher.COMMAND),  # its workers do not come and go
    ],
)
def test_a_loss_that_a_job_does_not_survive(workers: tuple[int, int, int], rank: int, launcher: Launcher) -> None:
    w = running(workers=workers, launcher=launcher)
    w.exited(1, KILLED, rank=rank)
    assert (w.job(1).state, w.job(1).stop) == (JobState.STOPPING, StopReason.FAILURE)
    for worker in w.state.attempts[JobId(1)].running:
        w.exited(1, KILLED, rank=worker.id.rank)
    assert causes(w, "fail") == ["killed by SIGKILL"]


def test_a_loss_after_one_has_done_its_work_is_a_failure() -> None:
    w = running()
    w.exited(1, OK, rank=0)
    w.exited(1, BROKEN, rank=1)
    assert w.job(1).stop is StopReason.FAILURE


def test_a_loss_of_all_who_have_started_is_a_failure() -> None:
    w = world(2)
    w.submit(resizable(1, (1, 1, 1)))
    w.started(1)
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"workers": {"min": 1, "want": 1, "max": 2}}))
    assert w.crew(1) == [0, 1]
    w.exited(1, KILLED, rank=0)
    assert w.job(1).stop is StopReason.FAILURE, "the newcomer knows nothing of the training"


def test_who_was_lost_on_the_way_does_not_speak_for_the_job() -> None:
    w = running()
    w.exited(1, KILLED, rank=1)
    w.exited(1, OK, rank=0)
    w.exited(1, OK, rank=2)
    assert [event.state for event in w.history if event.kind == "succeed"] == [JobState.SUCCEEDED]


def test_a_server_that_is_lost_takes_only_its_own_workers_along() -> None:
    w = World(node("a", cpus=2), node("b", cpus=2), policy="elastic-fifo")
    w.submit(resizable(1, (1, 1, 4)))
    w.started(1)
    w.cycle(ev.NodeLost(w.now, NodeName("b"), "no answer"))
    w.cycle(ev.NodeGone(w.now, NodeName("b"), "no answer for long"))
    assert (w.job(1).state, w.crew(1)) == (JobState.RUNNING, [0, 1])
    assert {lease.node for lease in leases_of(w.state).values()} == {"a"}
    assert may_grow_at(w.state, w.state.attempts[JobId(1)]) == w.now + w.state.regrow_after, "it is one loss"


# --- the end


def test_nobody_joins_a_job_that_ends() -> None:
    w = running()
    w.submit(job(2))
    w.leave(1)
    w.started(2)
    w.exited(2)
    assert w.crew(1) == [0, 1, 3]
    w.exited(1, OK, rank=0)
    assert stops(w) == {"1.1.3": GRACE}, "it would wait for one that is gone"
    w.submit(job(3))
    assert (generation(w), w.crew(1)) == (3, [0, 1]), "nothing is taken from it any more"
    w.exited(1, OK, rank=1)
    assert w.job(1).state is JobState.RUNNING, "the newcomer holds its place until it has ended"
    w.leave(1)
    assert [event.job for event in w.history if event.kind == "succeed"] == [2, 1]


def test_placeholders_of_a_launcher_leave_with_it() -> None:
    w = running(launcher=Launcher.HOROVOD)
    w.exited(1, OK, rank=0)
    assert set(regroups(w)) == {"1.1.1", "1.1.2"}
    assert {group.members for group in regroups(w).values()} == {(0,)}
    w.exited(1, KILLED, rank=1)
    w.exited(1, KILLED, rank=2)
    assert causes(w, "succeed") == ["finished"]


# --- other things that happen to a job whose workers come and go


def _shrinking() -> World:
    """Job 1 runs with workers 0 and 1; 2 was told to leave, and job 2 waits for its place."""
    w = running()
    w.submit(job(2))
    return w


def _cancel(w: World) -> None:
    w.cycle(ev.CancelAsked(w.now, JobId(1), "ann"))


def _migrate(w: World) -> None:
    w.cycle(ev.NodeSeen(w.now, node("b", cpus=3)))
    w.cycle(ev.MigrateAsked(w.now, JobId(1), NodeName("b"), "ann"))


def _remove(w: World) -> None:
    w.cycle(ev.RemoveNodeAsked(w.now, NodeName("a"), "ann", True))


@pytest.mark.parametrize("stop", [_cancel, _migrate, _remove])
def test_a_stop_reaches_those_who_leave_too(stop: Callable[[World], None]) -> None:
    w = _shrinking()
    stop(w)
    workers = [worker.id for worker in w.state.attempts[JobId(1)].workers]
    assert set(stops(w)) == set(map(str, workers))
    for worker in workers:
        w.exited(1, KILLED, rank=worker.rank)
    assert not w.state.shrinking
    assert (1, 1) not in {worker.of for worker in leases_of(w.state)}


def test_a_pause_lets_those_leave_who_were_told_to() -> None:
    w = _shrinking()
    w.cycle(ev.PauseAsked(w.now, JobId(1), "ann"))
    assert {str(c.worker) for c in w.commands} == {"1.1.0", "1.1.1"}
    w.leave(1)
    assert (w.job(1).state, 2 in w.state.attempts) == (JobState.PAUSED, True)
    w.cycle(ev.ResumeAsked(w.now, JobId(1), "ann"))
    assert {str(c.worker) for c in w.commands if isinstance(c, ResumeWorker)} == {"1.1.0", "1.1.1"}


def _growing() -> World:
    """Job 2 runs on one core, and is promised a second, which a worker of job 1 has not left yet."""
    w = world(4)
    w.submit(resizable(1, (1, 1, 3)), resizable(2, (1, 1, 1)))
    w.started(1)
    w.started(2)
    w.cycle(
        ev.UpdateAsked(w.now, JobId(1), "ann", {"workers": {"min": 1, "want": 1, "max": 2}}),
        ev.UpdateAsked(w.now, JobId(2), "ann", {"workers": {"min": 1, "want": 1, "max": 2}}),
    )
    assert list(w.state.growing) == [2]
    return w


@pytest.mark.parametrize(
    "event",
    [
        ev.PauseAsked(0.0, JobId(2), "ann"),
        ev.CancelAsked(0.0, JobId(2), "ann"),
        ev.DrainAsked(0.0, NodeName("a"), "ann", True),
        ev.NodeLost(0.0, NodeName("a"), "no answer"),
        ev.RemoveNodeAsked(0.0, NodeName("a"), "ann", True),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_was_only_promised_is_given_back(event: ev.Event) -> None:
    w = _growing()
    w.cycle(event)
    assert not w.state.growing
    assert w.job(2).workers <= 1
    w.leave(1)
    assert w.crew(2) == [0]


def test_a_removed_node_stops_nobody_who_only_leaves_it() -> None:
    w = World(node("a", cpus=2), node("b", cpus=1), policy="elastic-fifo")
    w.submit(resizable(1, (1, 1, 3)))
    w.started(1)
    w.submit(job(2))
    attempt = w.state.attempts[JobId(1)]
    (leaver,) = attempt.leavers
    assert leaver.node == "b"
    w.cycle(ev.RemoveNodeAsked(w.now, NodeName("b"), "ann", True))
    assert w.job(1).state is JobState.RUNNING
    w.leave(1)
    w.cycle()
    assert w.state.ledger.node(NodeName("b")) is None


# --- is it worth it?


class Costly(AssumedFacts):
    def __init__(self, left: float) -> None:
        self.left = left

    def restart_cost(self, job: Job) -> float:
        return 60.0

    def remaining(self, job: Job, now: float) -> float:
        return self.left


@pytest.mark.parametrize(
    ("launcher", "left", "grows"),
    [
        (Launcher.ELASTIC, 30.0, True),
        (Launcher.ELASTIC, 1.0, False),
        (Launcher.COMMAND, 30.0, False),
        (Launcher.COMMAND, 3000.0, True),
    ],
)
def test_growing_without_a_restart_pays_sooner(launcher: Launcher, left: float, grows: bool) -> None:
    w = world(2, facts=Costly(left))
    w.submit(resizable(1, (1, 1, 2), launcher=launcher), job(2))
    w.started(1)
    w.started(2)
    w.exited(2)
    assert (w.job(1).workers == 2) is grows


def test_a_launcher_that_runs_on_one_node_does_not_grow_beyond_it() -> None:
    w = World(node("a", cpus=1), policy="elastic-fifo")
    w.submit(resizable(1, launcher=Launcher.HOROVOD))
    w.started(1)
    w.cycle(ev.NodeSeen(w.now, node("b", cpus=2)))
    assert (w.crew(1), w.job(1).workers) == ([0], 1)


# --- update --workers


def update(w: World, low: int, high: int, number: int = 1) -> None:
    fields = {"workers": {"min": low, "want": low, "max": high}}
    w.cycle(ev.UpdateAsked(w.now, JobId(number), "ann", fields))


@pytest.mark.parametrize(
    ("low", "high", "crew"), [(1, 1, [0]), (1, 2, [0, 1]), (2, 4, [0, 1, 2]), (3, 3, [0, 1, 2]), (1, 4, [0, 1, 2])]
)
def test_the_range_of_a_running_job_is_changed_without_a_restart(low: int, high: int, crew: list[int]) -> None:
    w = running()
    update(w, low, high)
    assert (w.crew(1), w.job(1).attempt, w.job(1).state) == (crew, 1, JobState.RUNNING)
    assert (w.job(1).shape.workers.min, w.job(1).shape.workers.max) == (low, high)
    assert causes(w, "updated") == [f"workers {low}{f'..{high}' * (low != high)} set by ann"]


def test_what_is_wanted_is_had_at_once_and_the_least_stays_what_it_was() -> None:
    w = world(policy="fifo")
    w.submit(resizable(1, (1, 1, 2)))
    w.started(1)
    asked = Workers(1, 1, 2).wanting(2)
    w.cycle(ev.UpdateAsked(w.now, JobId(1), "ann", {"workers": asdict(asked)}))
    w.started(1)
    assert (w.crew(1), causes(w, "updated")) == ([0, 1], ["workers 1..2, 2 wanted set by ann"])
    w.exited(1, KILLED, rank=1)
    assert (w.crew(1), w.job(1).state) == ([0], JobState.RUNNING), "one that is lost is only missed"


def test_a_launcher_that_was_started_for_one_number_keeps_it() -> None:
    w = world(policy="fifo")
    w.submit(resizable(1, (2, 2, 2), launcher=Launcher.HOROVOD))
    w.started(1)
    update(w, 1, 1)
    assert w.crew(1) == [0, 1]
    assert w.job(1).shape.workers.min == 2


def test_one_that_may_not_be_stopped_shrinks_all_the_same_if_its_workers_can_leave() -> None:
    w = World(node("a", cpus=1), node("b", cpus=2), policy="fifo")
    w.submit(resizable(1, (3, 3, 3), preemptible=Preemptible.NO))
    w.started(1)
    first = w.state.attempts[JobId(1)].workers[0]
    update(w, 1, 1)
    assert (w.job(1).state, w.crew(1)) == (JobState.RUNNING, [0])
    assert [placement.node for placement in w.job(1).placements] == [first.node]


def test_a_range_that_has_no_room_is_refused_with_what_would_fit() -> None:
    w = running(cpus=5)
    before = w.job(1).spec
    update(w, 6, 8)
    assert (w.crew(1), w.job(1).spec) == ([0, 1, 2], before)
    assert causes(w, "not_updated") == [
        "not updated, as ann asked: job 1 has 3 workers, and there is room for 2 more at present: "
        "at least 5 could be asked for now"
    ]
    update(w, 5, 8)
    assert w.crew(1) == [0, 1, 2, 3, 4]


def test_a_range_whose_place_others_have_not_left_yet_is_refused() -> None:
    w = world(4)
    w.submit(resizable(1, (1, 1, 3)), resizable(2, (1, 1, 1)))
    w.started(1)
    w.started(2)
    update(w, 1, 2)
    update(w, 2, 2, number=2)
    assert "others have not left the place for more: ask again" in causes(w, "not_updated")[0]
    assert (w.crew(2), w.job(2).workers) == ([0], 1)
    w.leave(1)
    update(w, 2, 2, number=2)
    assert w.crew(2) == [0, 1]


@pytest.mark.parametrize(
    ("preemptible", "why"),
    [(Preemptible.NO, "preemptible is false"), (Preemptible.AUTO, "no checkpoint of it was seen yet")],
)
def test_one_that_may_not_be_stopped_is_not_resized_by_stop_and_start(preemptible: Preemptible, why: str) -> None:
    w = world(policy="fifo")
    w.submit(resizable(1, (2, 2, 3), launcher=Launcher.COMMAND, preemptible=preemptible))
    w.started(1)
    update(w, 1, 1)
    assert w.job(1).state is JobState.RUNNING
    assert causes(w, "not_updated")[0].endswith(f"it may not be: {why}")


def test_one_that_may_be_stopped_is_resized_by_stop_and_start() -> None:
    w = world(policy="fifo")
    w.submit(resizable(1, (2, 2, 3), launcher=Launcher.COMMAND))
    w.started(1)
    update(w, 1, 1)
    assert (w.job(1).stop, w.job(1).workers) == (StopReason.RESIZE, 1)
    for rank in (0, 1):
        w.exited(1, KILLED, rank=rank)
    assert w.crew(1) == [0]


def test_the_range_of_a_waiting_job() -> None:
    w = world(2, policy="fifo")
    assert w.submit(resizable(1, (3, 3, 3))) == []
    update(w, 2, 2)
    assert w.crew(1) == [0, 1]


def test_a_promise_that_no_longer_fits_the_range_is_taken_back() -> None:
    w = world(2, policy="fifo")
    w.submit(resizable(1, (2, 2, 2), priority=10))
    w.started(1)
    w.policy.order.preemptive = True  # type: ignore[misc]
    w.submit(resizable(2, (2, 2, 2), priority=90))
    assert list(w.state.pending) == [2]
    update(w, 1, 1, number=2)
    assert w.job(2).workers == 1


@pytest.mark.parametrize("state", ["starting", "paused"])
def test_the_size_of_a_job_that_does_not_run_cannot_change(state: str) -> None:
    w = world()
    w.submit(resizable(1))
    if state == "paused":
        w.started(1)
        w.cycle(ev.PauseAsked(w.now, JobId(1), "ann"))
    update(w, 1, 2)
    assert f"job 1 has 3 workers, and is {state}" in causes(w, "not_updated")[0]
    update(w, 2, 5)
    assert w.job(1).shape.workers.max == 5
