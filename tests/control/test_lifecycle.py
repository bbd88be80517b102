"""The state machine: what becomes of a job in each situation."""

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import ForgetJob, PauseWorker, ResumeWorker, StartAttempt, StopWorker
from schedulearn.core.domain.errors import IllegalTransition
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.states import FINISHED, TRANSITIONS, JobState, Trigger, next_state
from support.builders import BROKEN, KILLED, LOST, OK, World, job, leases_of, node

ONE = JobId(1)


def world(**more: float) -> World:
    return World(node("a", cpus=2, **more))


def ended(w: World, number: int) -> tuple[str, str]:
    """The final state of a job and its cause, from its history."""
    last = [e for e in w.history if e.job == number and e.state][-1]
    return str(last.state), last.cause


def test_a_job_starts_runs_and_succeeds() -> None:
    w = world()
    assert w.submit(job(1)) == [1]
    assert w.commands == [StartAttempt(AttemptId(ONE, 1))]
    assert w.job(1).state is JobState.STARTING
    w.started(1)
    assert w.job(1).state is JobState.RUNNING
    w.exited(1, OK)
    assert ended(w, 1) == ("succeeded", "finished")
    assert leases_of(w.state) == {}
    assert ONE not in w.state.jobs


def test_what_a_user_should_know_of_how_a_worker_runs_is_in_the_story() -> None:
    w = world()
    w.submit(job(1))
    w.cycle(ev.WorkerStarted(1.0, WorkerId(ONE, 1, 0), "it shares the network of its server"))
    (told,) = [e.cause for e in w.history if e.kind == "worker_started"]
    assert told == "worker 1.1.0 runs on a; it shares the network of its server"


def test_events_of_an_earlier_attempt_or_told_twice_change_nothing() -> None:
    w = world()
    w.submit(job(1, max_restarts=1))
    w.exited(1, BROKEN)
    w.now = 100.0
    w.cycle()
    assert w.job(1).attempt == 2
    w.cycle(ev.WorkerExited(w.now, WorkerId(ONE, 1, 0), OK))
    assert w.job(1).state is JobState.STARTING
    assert len(leases_of(w.state)) == 1


def test_failure_is_retried_with_growing_back_off_then_fails() -> None:
    w = world()
    w.submit(job(1, max_restarts=2))
    waits = []
    for _ in range(2):
        w.exited(1, BROKEN)
        assert w.job(1).state is JobState.QUEUED
        waits.append(w.job(1).not_before - w.now)
        w.cycle()
        assert w.running() == [], "it waits for its back-off"
        w.now = w.job(1).not_before
        w.cycle()
        assert w.running() == [1]
    assert waits[1] > waits[0] > 0
    w.exited(1, BROKEN)
    assert ended(w, 1) == ("failed", "exit code 1")


def test_lost_does_not_count_as_a_failure() -> None:
    w = world()
    w.submit(job(1, max_restarts=0))
    assert w.exited(1, LOST) == [1]
    assert w.job(1).restarts == 0
    assert w.job(1).attempt == 2


def test_a_back_off_of_the_past_delays_nothing_after_the_clock_was_set_back() -> None:
    w = world()
    w.now = 4000.0
    w.submit(job(1, max_restarts=1))
    w.exited(1, BROKEN)
    w.now = w.job(1).not_before
    w.cycle()
    w.now -= 3600.0
    assert w.exited(1, LOST) == [1]


def test_out_of_memory_is_not_retried() -> None:
    w = world()
    w.submit(job(1, max_restarts=5, memory=2_000_000_000))
    w.exited(1, Outcome(Ending.OUT_OF_MEMORY, signal=9, memory_limit=2_000_000_000))
    assert ended(w, 1) == ("failed", "killed by SIGKILL: out of memory (limit 2 GB)")


def test_one_failed_worker_stops_the_others() -> None:
    w = world()
    w.submit(job(1, workers=2))
    w.started(1)
    w.exited(1, KILLED, rank=1)
    assert w.job(1).state is JobState.STOPPING
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), NodeName("a"), 30.0)]
    w.now += 1
    w.exited(1, OK, rank=0)
    assert ended(w, 1) == ("failed", "killed by SIGKILL")


def test_a_worker_that_finishes_early_waits_for_the_rest() -> None:
    w = world()
    w.submit(job(1, workers=2))
    w.started(1)
    w.exited(1, OK, rank=0)
    assert w.job(1).state is JobState.RUNNING
    assert len(leases_of(w.state)) == 1
    w.exited(1, OK, rank=1)
    assert ended(w, 1)[0] == "succeeded"


def test_cancel_in_the_queue_and_while_running() -> None:
    w = world()
    w.submit(job(1, cpus=2), job(2, cpus=2))
    w.started(1)
    w.cycle(ev.CancelAsked(w.now, JobId(2), "ann"))
    assert ended(w, 2) == ("cancelled", "cancelled by ann")
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    assert w.job(1).state is JobState.STOPPING
    assert len(leases_of(w.state)) == 1, "leased until the end is confirmed"
    w.exited(1, KILLED)
    assert ended(w, 1) == ("cancelled", "cancelled by ann")


@pytest.mark.parametrize("outcome", [OK, BROKEN, KILLED, LOST])
def test_after_a_stop_we_asked_for_any_exit_means_stopped_as_asked(outcome: Outcome) -> None:
    w = world()
    w.submit(job(1, max_restarts=3))
    w.started(1)
    w.cycle(ev.CancelAsked(w.now, ONE, "ann"))
    w.exited(1, outcome)
    assert ended(w, 1)[0] == "cancelled"


def test_delete_stops_at_once_and_forgets_after_the_end() -> None:
    w = world()
    w.submit(job(1))
    w.started(1)
    w.cycle(ev.DeleteAsked(w.now, ONE, "ann"))
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), NodeName("a"), 0.0)]
    assert w.changes.forgotten == []
    w.exited(1, KILLED)
    assert w.changes.forgotten == [1]
    assert ForgetJob(ONE) in w.commands
    w.cycle(ev.DeleteAsked(w.now, JobId(77), "ann"))
    assert w.changes.forgotten == [77], "one that finished long ago is only in the store"


def test_pause_and_resume_keep_the_leases_and_stop_the_clock() -> None:
    w = world()
    w.submit(job(1, time_limit=100.0))
    w.started(1)
    w.now = 60.0
    w.cycle(ev.PauseAsked(w.now, ONE, "ann"))
    assert w.commands == [PauseWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    assert len(leases_of(w.state)) == 1
    w.now = 1000.0
    w.cycle()
    assert w.job(1).state is JobState.PAUSED, "a pause does not use up the time limit"
    w.cycle(ev.ResumeAsked(w.now, ONE, "ann"))
    assert w.commands == [ResumeWorker(WorkerId(ONE, 1, 0), NodeName("a"))]
    w.now = 1039.0
    w.cycle()
    assert w.job(1).state is JobState.RUNNING
    w.now = 1040.0
    w.cycle()
    assert w.job(1).state is JobState.STOPPING
    w.exited(1, KILLED)
    assert ended(w, 1) == ("failed", "its time limit of 1 min 40 s was reached")


def test_a_queued_job_can_be_held_back_and_released() -> None:
    w = world()
    w.submit(job(1, cpus=2), job(2, cpus=2))
    w.cycle(ev.PauseAsked(w.now, JobId(2), "ann"))
    assert w.exited(1) == []
    decision = w.cycle(ev.ResumeAsked(w.now, JobId(2), "ann"))
    assert [g.job for g in decision.grants] == [2]


def test_time_limit_can_be_raised_while_it_runs() -> None:
    w = world()
    w.submit(job(1, time_limit=10.0))
    w.started(1)
    w.cycle(ev.UpdateAsked(w.now, ONE, "ann", {"time_limit": 50.0}))
    w.now = 20.0
    w.cycle()
    assert w.job(1).state is JobState.RUNNING
    w.now = 50.0
    w.cycle()
    assert w.job(1).state is JobState.STOPPING


def test_a_job_that_fills_the_disk_fails_whatever_restarts_it_has() -> None:
    w = world()
    w.submit(job(1, max_restarts=3))
    w.started(1)
    told = ev.DiskExceeded(w.now, ONE, "its files take 3 GB", grace=0.0)
    w.cycle(told)
    assert w.commands == [StopWorker(WorkerId(ONE, 1, 0), NodeName("a"), 0.0)]
    w.cycle(told)
    assert w.commands == [], "it is told again until it has gone"
    w.exited(1, KILLED)
    assert ended(w, 1) == ("failed", "stopped: its files take 3 GB")
    w.cycle(told)
    assert w.commands == []


def test_dependants_wait_then_start() -> None:
    w = world()
    assert w.submit(job(1), job(2, depends_on=(ONE,))) == [1]
    assert w.job(2).reason == "waits for job 1"
    assert w.exited(1, OK) == [2]


def test_a_failed_dependency_fails_its_dependants_all_the_way_down() -> None:
    w = world()
    w.submit(job(1), job(2, depends_on=(ONE,)), job(3, depends_on=(JobId(2),)))
    w.exited(1, BROKEN)
    assert ended(w, 2) == ("failed", "job 1, which it depends on, failed")
    assert ended(w, 3) == ("failed", "job 2, which it depends on, failed")


def test_dependencies_that_ended_before_the_submission() -> None:
    w = world()
    w.cycle(ev.Submitted(0.0, job(5, depends_on=(ONE,)), {ONE: JobState.SUCCEEDED}))
    assert w.running() == [5]
    w.cycle(ev.Submitted(0.0, job(6, depends_on=(JobId(2),)), {JobId(2): JobState.CANCELLED}))
    assert ended(w, 6) == ("failed", "job 2, which it depends on, cancelled")
    w.cycle(ev.Submitted(0.0, job(7, depends_on=(JobId(3),)), {}))
    assert ended(w, 7) == ("failed", "job 3, which it depends on, is gone")


def test_attained_service_counts_devices_while_running() -> None:
    w = World(node("a", gpus=4))
    w.submit(job(1, gpus=2, workers=2))
    w.now = 5.0
    w.started(1)
    w.now = 15.0
    assert w.job(1).ran.at(w.now) == 10.0
    assert w.job(1).attained.at(w.now) == 40.0
    assert w.job(1).ran.at(0.0) == 0.0, "a clock set back takes nothing away"


def test_drain_takes_nothing_new() -> None:
    w = world()
    w.cycle(ev.DrainAsked(0.0, NodeName("a"), "ann", True))
    assert w.submit(job(1)) == []
    decision = w.cycle(ev.DrainAsked(0.0, NodeName("a"), "ann", False))
    assert [g.job for g in decision.grants] == [1]


def test_a_lost_node_takes_nothing_new_and_comes_back() -> None:
    w = world()
    w.cycle(ev.NodeLost(0.0, NodeName("a"), "does not answer"))
    assert w.submit(job(1)) == []
    decision = w.cycle(ev.NodeSeen(0.0, node("a", cpus=2)))
    assert [g.job for g in decision.grants] == [1]


def test_an_impossible_transition_says_which() -> None:
    with pytest.raises(IllegalTransition, match="a succeeded job cannot start"):
        next_state(JobState.SUCCEEDED, Trigger.START)


def test_the_table_never_leaves_a_finished_state_and_reaches_every_state() -> None:
    assert not [state for state, _ in TRANSITIONS if state in FINISHED]
    assert set(TRANSITIONS.values()) == set(JobState)


# --- ends that were told late


def moving(*, code: Outcome, ended_at: float, restarts: int = 0, told: bool = False) -> World:
    """Job 1 runs on a; at 10 somebody wants it on b, or cancels it. That its worker has ended is told at 12."""
    w = World(node("a", cpus=2), node("b", cpus=2))
    w.submit(job(1, max_restarts=restarts))
    w.started(1)
    w.now = 10.0
    w.cycle(ev.CancelAsked(10.0, ONE, "ann") if told else ev.MigrateAsked(10.0, ONE, NodeName("b"), "ann"))
    w.now = 12.0
    w.cycle(ev.WorkerExited(ended_at, WorkerId(ONE, 1, 0), code))
    return w


def test_a_job_that_had_succeeded_before_it_was_to_move_is_not_run_again() -> None:
    w = moving(code=OK, ended_at=9.0)
    assert ended(w, 1) == ("succeeded", "finished")
    assert ONE not in w.state.jobs
    assert [ledger.free for ledger in w.state.ledger] == [ledger.node.capacity for ledger in w.state.ledger]


def test_one_that_ended_well_when_it_was_told_to_move_goes_on_there() -> None:
    """It has saved what it had, and says so by its exit code."""
    w = moving(code=OK, ended_at=11.0)
    assert w.where(1) == ["b"]


def test_a_failure_before_a_move_counts() -> None:
    assert ended(moving(code=BROKEN, ended_at=9.0), 1) == ("failed", "exit code 1")
    w = moving(code=BROKEN, ended_at=9.0, restarts=1)
    assert (w.job(1).restarts, w.job(1).move, w.job(1).not_before) == (1, None, 14.0)


@pytest.mark.parametrize(("code", "state"), [(OK, "succeeded"), (BROKEN, "cancelled")])
def test_one_that_had_ended_before_it_was_cancelled(code: Outcome, state: str) -> None:
    assert ended(moving(code=code, ended_at=9.0, told=True), 1)[0] == state
    assert ended(moving(code=code, ended_at=11.0, told=True), 1)[0] == "cancelled"
