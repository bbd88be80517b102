"""The scheduler on a real store: restarts, failures of the store, and policies that do not work."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.errors import RoleTaken, StoreAway, StoreError
from schedulearn.core.domain.events import NodeSeen
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import Metric
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.registry import STAGES, StageInfo
from schedulearn.core.policies.stages import Allocate, Allocation, Place
from schedulearn.executors.common.logwriter import LogWriter
from schedulearn.service.common.config import DataFolder
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import Cycle, Store
from support.builders import BROKEN, KILLED, OK, node
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


@contextmanager
def failing(store: Store, method: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The store does not take this call."""

    def fail(*_: Any, **__: Any) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store, method, fail)
        yield


def node_state(store: Store) -> NodeState:
    return store.list_nodes()[0].state


# --- an ordinary life


def test_a_job_from_its_submission_to_its_end(bench: Bench) -> None:
    job = bench.submit()
    assert bench.cycle() == [("start", "1.1.0")]
    launch = bench.executor.launches["1.1.0"]
    token = bench.store.tokens()
    assert token == [], "an attempt's token is nobody's to list"
    assert launch.token.startswith("sl_")
    bench.executor.started("1.1.0", bench.clock.now())
    bench.cycle()
    bench.exited("1.1.0")
    assert bench.cycle(10.0) == []
    assert bench.state(job) == "succeeded"
    assert bench.store.leases() == []
    assert bench.store.requests_after(0) == []
    assert bench.story(job) == ["submitted", "start", "worker_started", "started", "worker_exited", "succeed"]


def test_commands_are_recorded_before_they_are_carried_out(bench: Bench) -> None:
    seen = []
    start = bench.executor.start
    bench.executor.start = lambda launch: (seen.append(bench.state(JobId(1))), start(launch))  # type: ignore[assignment,func-returns-value]
    bench.submit()
    bench.cycle()
    assert seen == ["starting"]


def test_the_token_of_an_attempt_is_revoked_when_it_has_ended(bench: Bench) -> None:
    from schedulearn.service.common.auth import hash_token

    bench.running()
    digest = hash_token(bench.executor.launches["1.1.0"].token)
    assert bench.store.token_by_hash(digest)
    bench.exited("1.1.0")
    bench.cycle()
    assert bench.store.token_by_hash(digest) is None


# --- dependencies, as they arrive in one cycle or while nobody looked


def test_a_chain_whose_first_link_cannot_be_fails_to_its_end(bench: Bench) -> None:
    failed = bench.submit()
    bench.cycle()
    bench.exited("1.1.0", BROKEN)
    bench.cycle()
    first = bench.submit(depends_on=(failed,))
    second = bench.submit(depends_on=(first,))
    bench.cycle()
    assert (bench.state(first), bench.state(second)) == ("failed", "failed")
    assert bench.job(second).reason == f"job {first}, which it depends on, failed"


def test_a_dependency_that_failed_while_no_scheduler_ran_is_found_out(bench: Bench) -> None:
    failed = bench.submit()
    bench.cycle()
    bench.exited("1.1.0", BROKEN)
    bench.cycle()
    dependant = bench.submit(depends_on=(failed,))
    bench.live()
    assert bench.cycle() == []
    assert bench.state(dependant) == "failed"


def test_a_dependency_deleted_before_anybody_looked_fails_the_dependant(bench: Bench) -> None:
    first = bench.submit()
    bench.ask("delete", first)
    second = bench.submit(depends_on=(first,))
    bench.cycle()
    assert bench.state(second) == "failed"
    assert "is gone" in bench.job(second).reason


def test_what_was_waited_for_is_not_waited_for_again_after_a_restart(bench: Bench) -> None:
    first = bench.running()
    second = bench.submit(depends_on=(first,))
    bench.cycle()
    assert bench.job(second).reason == f"waits for job {first}"
    bench.live()
    assert ("start", "2.1.0") not in bench.cycle()
    bench.exited("1.1.0")
    assert ("start", "2.1.0") in bench.cycle()


# --- the store fails in the middle of a cycle


def test_a_cycle_that_cannot_be_recorded_does_nothing_and_is_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.submit()
    with failing(bench.store, "save_cycle", monkeypatch), pytest.raises(StoreError):
        bench.cycle()
    assert bench.executor.take_calls() == [], "what is not recorded is not done"
    assert bench.state(job) == "queued"
    bench.scheduler.recover()
    assert bench.cycle() == [("start", "1.1.0")]
    assert bench.story(job).count("start") == 1


def test_an_end_that_could_not_be_recorded_is_told_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bench.running()
    bench.exited("1.1.0")
    with failing(bench.store, "save_cycle", monkeypatch), pytest.raises(StoreError):
        bench.cycle()
    bench.executor.take_calls()
    bench.scheduler.recover()
    assert ("adopt", "1.1.0") in bench.executor.take_calls(), "the executor is asked what became of it"
    bench.exited("1.1.0")
    bench.cycle()
    assert bench.state(job) == "succeeded"
    assert bench.story(job).count("worker_exited") == 1
    assert bench.store.leases() == []


def test_a_start_that_was_recorded_but_not_carried_out_is_given_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.submit()
    with failing(bench.store, "add_token", monkeypatch), pytest.raises(StoreError):
        bench.cycle()
    assert (bench.state(job), bench.executor.take_calls()) == ("starting", [])
    bench.scheduler.recover()
    assert bench.executor.take_calls() == [("start", "1.1.0")]
    assert len(bench.store.attempts_of(job)) == 1


def test_requests_survive_a_failed_cycle(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bench.running()
    bench.ask("cancel", job)
    with failing(bench.store, "save_cycle", monkeypatch), pytest.raises(StoreError):
        bench.cycle()
    bench.scheduler.recover()
    bench.executor.take_calls()
    assert bench.cycle() == [("stop", "1.1.0", 30.0)]
    assert bench.store.requests_after(0) == []


def test_the_thread_recovers_by_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of `run`: a store that fails twice costs time and nothing else."""
    monkeypatch.setattr("schedulearn.service.loop.scheduler._AFTER_A_FAULT", 0.0)
    real, failures = bench.store.save_cycle, []

    def sometimes(cycle: Cycle) -> None:
        if len(failures) < 2:
            failures.append(cycle)
            raise StoreError("disk full")
        real(cycle)
        bench.scheduler.stop()

    monkeypatch.setattr(bench.store, "save_cycle", sometimes)
    job = bench.submit()
    bench.scheduler.run()
    assert len(failures) == 2
    assert bench.state(job) == "starting"
    assert bench.executor.calls == [("start", "1.1.0")]


# --- restarts


def test_a_restart_starts_again_what_was_starting(bench: Bench) -> None:
    job = bench.submit()
    bench.cycle()
    bench.live()
    assert bench.executor.take_calls() == [("start", "1.1.0")]
    assert len(bench.store.attempts_of(job)) == 1


def test_a_restart_adopts_what_was_running(bench: Bench) -> None:
    bench.running()
    bench.live()
    assert bench.executor.take_calls() == [("adopt", "1.1.0"), ("resume", "1.1.0")]


def test_a_restart_pauses_again_what_was_paused(bench: Bench) -> None:
    job = bench.running()
    bench.ask("pause", job)
    assert bench.cycle() == [("pause", "1.1.0")]
    bench.live()
    assert bench.executor.take_calls() == [("adopt", "1.1.0"), ("pause", "1.1.0")]
    bench.ask("resume", job)
    assert bench.cycle() == [("resume", "1.1.0")]


def test_a_restart_stops_again_what_was_stopping(bench: Bench) -> None:
    job = bench.running(grace=7.0)
    bench.ask("cancel", job)
    bench.cycle()
    bench.live()
    assert bench.executor.take_calls() == [("adopt", "1.1.0"), ("stop", "1.1.0", 7.0)]
    bench.exited("1.1.0", KILLED)
    bench.cycle()
    assert bench.state(job) == "cancelled"


def test_a_restart_stops_a_deleted_job_at_once_and_forgets_it(bench: Bench) -> None:
    job = bench.running()
    bench.ask("delete", job)
    assert bench.cycle() == [("stop", "1.1.0", 0.0)]
    bench.live()
    assert bench.executor.take_calls() == [("adopt", "1.1.0"), ("stop", "1.1.0", 0.0)]
    bench.exited("1.1.0", KILLED)
    assert bench.cycle() == [("forget", 1)]
    assert bench.store.job(job) is None
    assert bench.story()[-1] == "deleted"


def test_a_drained_node_stays_drained_over_a_restart_and_a_look_at_the_nodes(bench: Bench) -> None:
    bench.cycle()
    bench.ask("drain", node="a", drain=True)
    bench.cycle(60.0)  # the nodes are looked at in this very cycle
    assert node_state(bench.store) is NodeState.DRAINING
    bench.live()
    bench.submit()
    assert bench.cycle(60.0) == []
    assert node_state(bench.store) is NodeState.DRAINING
    bench.ask("drain", node="a", drain=False)
    assert bench.cycle(60.0) == [("start", "1.1.0")]
    assert node_state(bench.store) is NodeState.UP


def test_a_node_that_has_more_now_is_noticed_but_not_written_down_again_and_again(bench: Bench) -> None:
    bench.cycle()
    bench.executor.has = [node("a", cpus=4)]
    bench.cycle(60.0)
    assert bench.store.list_nodes()[0].capacity["cpus"] == 4
    before = bench.story()
    bench.cycle(60.0)
    assert bench.story() == before


def test_time_that_ran_out_while_nobody_watched_counts(bench: Bench) -> None:
    job = bench.running(time_limit=60.0)
    bench.clock.pass_time(100.0)
    bench.live()
    bench.executor.take_calls()
    assert bench.cycle() == [("stop", "1.1.0", 30.0)]
    bench.exited("1.1.0", KILLED)
    bench.cycle()
    assert bench.state(job) == "failed"
    assert "time limit of 1 min" in bench.job(job).reason


def test_a_job_that_ended_in_time_while_nobody_watched_has_succeeded(bench: Bench) -> None:
    job = bench.running(time_limit=60.0)
    ended_at = bench.clock.now() + 30.0
    bench.clock.pass_time(100.0)
    bench.live()
    bench.cycle()  # the limit is over before the executor has told what became of the worker
    bench.executor.exited("1.1.0", ended_at, OK)
    bench.cycle()
    assert bench.state(job) == "succeeded"


def test_back_off_goes_on_over_a_restart(bench: Bench) -> None:
    bench.running(max_restarts=1)
    bench.exited("1.1.0", BROKEN)
    bench.cycle()
    bench.live()
    assert bench.cycle(1.0) == []
    assert bench.cycle(10.0) == [("start", "1.2.0")]


def test_back_off_ends_though_the_clock_was_set_back_and_nobody_knows_by_how_much(bench: Bench) -> None:
    bench.running(max_restarts=1)
    bench.exited("1.1.0", BROKEN)
    bench.cycle()
    bench.clock.pass_time(-3600.0)
    bench.live()
    assert bench.cycle(1.0) == []
    assert bench.cycle(10.0) == [("start", "1.2.0")]


def test_a_scheduler_that_was_replaced_may_not_write_any_more(bench: Bench) -> None:
    old = bench.scheduler
    bench.live()
    bench.submit()
    with pytest.raises(RoleTaken):
        old.cycle()
    assert bench.executor.take_calls() == [], "and does nothing"
    assert bench.cycle() == [("start", "1.1.0")]


def test_a_pause_that_comes_too_late_shows_in_the_story(bench: Bench) -> None:
    job = bench.submit()
    bench.cycle()
    bench.ask("pause", job)
    bench.cycle()
    assert bench.state(job) == "starting"
    assert bench.story(job)[-1] == "not_paused"


# --- policies


class Raises(Allocate):
    def allocate(self, allocation: Allocation) -> None:
        for job in allocation.claimants():
            raise ZeroDivisionError(f"job {job.id} has no length")


class TooFew(Allocate):
    def allocate(self, allocation: Allocation) -> None:
        for job in allocation.claimants():
            allocation.give(job, job.shape.workers.min - 1)


class Nowhere(Place):
    def place(self, job: Any, shape: Any, workers: int, nodes: Any, memory: Any) -> list[NodeName]:
        return [next(iter(nodes)).name] * (workers - 1) + [NodeName("nowhere")]


BAD = {
    "raises": ("allocate", Raises, "ZeroDivisionError"),
    "too-few": ("allocate", TooFew, "BadPlan"),
    "nowhere": ("place", Nowhere, "BadPlan"),
}


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], str]:
    """A policy that does not work, as it is asked for, and the error that it leads to."""
    kind, make, error = BAD[request.param]
    monkeypatch.setitem(STAGES[kind], request.param, StageInfo(make, "does not work"))
    return {kind: request.param}, error


def set_policy(bench: Bench, stages: dict[str, str] | None = None, preset: str = "fifo") -> None:
    bench.ask("policy", preset=preset, stages=stages or {}, params={})


def fault(bench: Bench) -> Any:
    return bench.store.setting("policy_fault")


def test_a_bad_plan_is_refused_and_the_last_good_policy_stays(bench: Bench, bad: tuple[dict[str, str], str]) -> None:
    stages, error = bad
    set_policy(bench, preset="round-robin")
    bench.running(cpus=0.5)
    jobs = [bench.submit(workers=2, cpus=0.5), bench.submit(cpus=2)]
    set_policy(bench, stages)
    assert bench.cycle() == [], "the plan is refused whole"
    assert bench.store.attempts_of(jobs[0]) == []
    assert fault(bench)["policy"] == "fifo"
    assert error in fault(bench)["error"]
    assert bench.story()[-2:] == ["policy_set", "policy_fault"]
    assert bench.cycle() == [("start", "2.1.0"), ("start", "2.1.1")]
    assert bench.scheduler._policies.now.preset == "round-robin"
    assert next(iter(bench.scheduler.state.ledger)).free["cpus"] == 0.5, "refused plans took nothing"


def test_a_policy_that_fails_only_when_there_is_something_to_decide(
    bench: Bench, bad: tuple[dict[str, str], str]
) -> None:
    stages, _ = bad
    set_policy(bench, preset="round-robin")
    bench.running(cpus=0.5)
    bench.exited("1.1.0")
    set_policy(bench, stages)
    bench.cycle()
    assert fault(bench) is None, "with nothing to decide nothing can go wrong"
    bench.submit(workers=2, cpus=1)
    bench.submit(cpus=2)
    bench.cycle()
    assert fault(bench)
    assert bench.cycle() == [("start", "2.1.0"), ("start", "2.1.1")]
    assert bench.scheduler._policies.now.preset == "round-robin"


def test_after_a_restart_a_policy_that_fails_gives_way_to_the_default(
    bench: Bench, bad: tuple[dict[str, str], str]
) -> None:
    stages, _ = bad
    set_policy(bench, stages)
    bench.cycle()
    bench.live()
    bench.submit(workers=2, cpus=1)
    bench.submit(cpus=2)
    bench.cycle()
    assert bench.cycle() == [("start", "1.1.0"), ("start", "1.1.1")]
    assert bench.store.setting("policy")["stages"] == stages, "what was asked for is kept for all to see"


def test_a_plain_policy_that_fails_is_told_once_and_harms_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.submit()
    with monkeypatch.context() as patch:
        patch.setattr("schedulearn.core.policies.place.pack.Pack.place", lambda *_: 1 / 0)
        for _ in range(3):
            assert bench.cycle(1.0) == []
    assert bench.story().count("policy_fault") == 1
    assert bench.state(job) == "queued"
    assert bench.cycle() == [("start", "1.1.0")]


def test_a_policy_is_set_while_jobs_run(bench: Bench) -> None:
    bench.executor.has = [node("a", cpus=2), node("b", cpus=2)]
    bench.running()
    set_policy(bench, preset="round-robin")
    assert bench.cycle() == [], "running jobs do not notice"
    assert bench.story()[-1] == "policy_set"
    for _ in range(2):
        bench.submit()
        bench.cycle()
    placed = [launch.node for launch in bench.executor.launches.values()]
    assert placed[1] != placed[2]
    bench.live()
    assert bench.scheduler._policies.now.preset == "round-robin"


def test_a_policy_that_is_no_longer_there_does_not_keep_the_service_from_starting(bench: Bench) -> None:
    bench.store.set_setting("policy", {"preset": "gone", "stages": {}, "params": {}})
    bench.submit()
    bench.live()
    assert bench.cycle() == [("start", "1.1.0")]
    assert "gone" in fault(bench)["error"]
    assert "policy_fault" in bench.story()


def test_an_unknown_policy_asked_for_is_refused_and_shown(bench: Bench) -> None:
    set_policy(bench, preset="no-such")
    bench.cycle()
    assert "no-such" in next(e.event.cause for e in bench.store.events_after(0) if e.event.kind == "policy_fault")
    assert bench.store.setting("policy")["preset"] == "fifo"


def test_the_policy_remembers_over_a_restart(bench: Bench) -> None:
    bench.executor.has = [node(name, cpus=4) for name in "abc"]
    set_policy(bench, preset="round-robin")
    for _ in range(2):
        bench.submit()
        bench.cycle()
    bench.live()
    bench.executor.launches.clear()
    bench.submit()
    bench.cycle()
    assert bench.executor.launches["3.1.0"].node == "c"


def test_the_lease_is_renewed(bench: Bench) -> None:
    bench.cycle()
    before = bench.store.role_seen("scheduler")
    bench.cycle(15.0)
    assert bench.store.role_seen("scheduler") == before + 15.0  # type: ignore[operator]


def test_workers_of_a_job_share_a_token_and_a_port(bench: Bench) -> None:
    bench.submit(workers=2, cpus=0.5)
    bench.cycle()
    first, second = bench.executor.launches["1.1.0"], bench.executor.launches["1.1.1"]
    assert first.token == second.token
    assert first.master_port == second.master_port > 0
    assert (first.local_rank, second.local_rank) == (0, 1)
    assert replace(first, worker=second.worker, local_rank=1) == second


def test_output_of_a_worker_that_has_just_ended_is_read_before_its_end_is_told(bench: Bench) -> None:
    job = bench.running(metric=Metric("loss"))
    log = bench.worker_folder(bench.executor.launches["1.1.0"].worker) / "log"
    log.mkdir(parents=True)
    (log / f"{0:015}.log").write_bytes(b"loss: 0.25\n")
    bench.exited("1.1.0")
    assert [series.last for series in bench.store.series_of(job)] == [0.25]


def test_an_end_waits_until_all_points_are_stored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is killed afterwards would not look at the output of a worker that has ended."""

    def away(*_: Any) -> None:
        raise StoreAway("it is full")

    one, two = bench.running(), bench.running()
    log = bench.worker_folder(WorkerId(one, 1, 0)) / "log"
    log.mkdir(parents=True)
    LogWriter(str(log), 1000).write(b"loss: 0.25\n")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "add_found", away)
        patched.setattr(Store, "lost_for", lambda _: 1.0)
        bench.exited(f"{one}.1.0")
        bench.exited(f"{two}.1.0")
        bench.cycle(1)
        assert (bench.state(one), bench.state(two)) == (JobState.RUNNING, JobState.RUNNING)
    bench.live()  # killed, and started again
    bench.exited(f"{one}.1.0")
    bench.exited(f"{two}.1.0")
    bench.cycle(1)
    assert (bench.state(one), bench.state(two)) == (JobState.SUCCEEDED, JobState.SUCCEEDED)
    assert [point.value for point in bench.store.curve(one, "loss")] == [0.25]


def test_an_end_that_has_waited_is_told_when_the_store_is_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bench.running()
    with monkeypatch.context() as patched:
        patched.setattr(ProgressWatcher, "finish", lambda *_: False)
        bench.exited(f"{job}.1.0")
        bench.cycle(1)
        assert bench.state(job) is JobState.RUNNING
    bench.cycle(1)
    assert bench.state(job) is JobState.SUCCEEDED


# --- news that got lost


def test_workers_are_asked_after_from_time_to_time(store: Store, folder: DataFolder, clock: HandClock) -> None:
    """Whatever became of a command, or of the answer to it: no job is stuck, and no lease kept, for ever."""
    bench = Bench(store, folder, clock, look_every=60.0)
    job = bench.running()
    assert bench.cycle(30.0) == []
    assert ("adopt", "1.1.0") in bench.cycle(60.0)
    assert bench.cycle(10.0) == []
    bench.ask("cancel", job)
    assert [call[:2] for call in bench.cycle()] == [("stop", "1.1.0")]
    assert bench.cycle(10.0) == []
    asked = [call[:2] for call in bench.cycle(60.0)]
    assert asked == [("adopt", "1.1.0"), ("stop", "1.1.0")], "the first one may have been lost"
    bench.exited("1.1.0")
    bench.cycle()
    assert bench.state(job) == "cancelled"
    assert bench.cycle(120.0) == []


def test_a_job_that_its_node_could_not_start_waits_until_the_node_is_well(bench: Bench) -> None:
    job = bench.submit()
    bench.cycle()
    [well] = bench.executor.nodes()
    bench.executor.has = [replace(well, problem="too many open files")]
    bench.scheduler.post(NodeSeen(bench.clock.now(), well))
    bench.exited("1.1.0", Outcome(Ending.NODE_FAULT, detail="too many open files"))
    assert bench.cycle() == []
    assert bench.state(job) == "queued"
    assert bench.job(job).restarts == 0
    assert node_state(bench.store) is NodeState.PAUSED
    assert bench.cycle(600.0) == []
    bench.executor.has = [well]
    assert bench.cycle(60.0) == [("start", "1.2.0")]
    assert node_state(bench.store) is NodeState.UP
