"""Workers that come and go, and a service that dies at every step on the way: nothing is lost, or runs twice."""

from collections import Counter
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher as LauncherKind
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import FINISHED
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import Identities
from schedulearn.service.common.roles import SchedulerLease
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.service.progress.reports import add_reports
from schedulearn.store import Point, Store, open_store
from support.builders import KILLED, node, spec
from support.clock import HandClock
from support.scheduling import Bench
from support.simulated_executor import SimulatedExecutor, World
from support.simulated_worker import Behaviour

CORES = 4
STEP = 0.5  # seconds between two cycles
_RISKY = ("start", "adopt", "stop", "regroup")


class Died(BaseException):
    """The service was killed."""


class Lives:
    """One service after the other, on one store and one machine whose workers outlive them all."""

    def __init__(self, store: Store, folder: DataFolder, dies_at: int) -> None:
        self.store, self.folder = store, folder
        self.begun: Counter[WorkerId] = Counter()
        self.world = World(self._behave, at=1_700_000_000.0)
        self.steps, self.dies_at = 0, dies_at
        self._save, self._saves = store.save_cycle, 0
        store.save_cycle = self._save_or_die  # type: ignore[method-assign]
        self.live()

    def _behave(self, launch: Launch) -> Behaviour:
        self.begun[launch.worker] += 1
        long = launch.worker.job == 1
        return Behaviour(runs=6.0 if long else 1.0, leaves_after=0.1, term_takes=0.1)

    def step(self) -> None:
        """A moment in which it may be killed."""
        self.steps += 1
        if self.steps == self.dies_at:
            raise Died

    def _save_or_die(self, cycle: Any) -> None:
        self.step()
        self._save(cycle)
        self.step()

    def live(self) -> None:
        lease = SchedulerLease(self.store, self.world, self.folder.root)
        lease.take(shared_database=False)
        executor: Any = SimulatedExecutor(self.world, lambda event: scheduler.post(event), [node("a", cpus=CORES)])
        progress = ProgressWatcher(self.store, lambda w: WorkerPaths.of(self.folder.root, w).folder, self.world)
        launcher = Launcher(self.store, self.folder, Identities())
        scheduler = self.scheduler = Scheduler(self.store, executor, self.world, lease, launcher, progress)
        for name in _RISKY:
            setattr(executor, name, self._risky(getattr(executor, name)))
        self.executor = executor
        scheduler.recover()

    def _risky(self, call: Any) -> Any:
        def first_step(*args: Any) -> None:
            self.step()
            call(*args)

        return first_step

    def cycle(self) -> None:
        try:
            self.scheduler.cycle()
        except Died:
            self.executor.close()
            self._live_again()
        self.world.advance(STEP)
        assert sum(1 for worker in self.begun if self.world.running(worker)) <= CORES, (
            "more runs than there is room for"
        )

    def _live_again(self) -> None:
        try:
            self.live()
        except Died:  # again, while it was starting
            self.executor.close()
            self.live()

    def submit(self, **more: Any) -> JobId:
        return self.store.add_job(spec(**more), "ann", self.world.now(), "submitted by ann")


def scenario(store: Store, folder: DataFolder, dies_at: int) -> tuple[Lives, list[Attempt]]:
    """A hot job has all cores, makes room for another, and grows again when that has ended."""
    store.set_setting("policy", {"preset": "elastic-fifo"})
    lives = Lives(store, folder, dies_at)
    hot = {"launcher": LauncherKind.ELASTIC, "preemptible": Preemptible.YES}
    lives.submit(workers=(1, 1, 4), **hot)
    for number in range(60):
        if number == 4:
            lives.submit(workers=(2, 2, 2))
        lives.cycle()
        if number > 4 and all(store.job(JobId(n)).job.state in FINISHED for n in (1, 2)):  # type: ignore[union-attr]
            break
    return lives, store.attempts_of(JobId(1))


def test_a_job_shrinks_and_grows_without_a_restart(store: Store, folder: DataFolder) -> None:
    lives, (attempt,) = scenario(store, folder, dies_at=0)
    ranks = [(worker.id.rank, worker.joined, worker.left_at is not None) for worker in attempt.workers]
    assert ranks[:4] == [(0, 0, False), (1, 0, False), (2, 0, True), (3, 0, True)]
    assert [joined for _, joined, _ in ranks[4:]] == [2, 2], "two joined when the others had ended"
    assert attempt.generation >= 2
    assert lives.steps > 30


@pytest.mark.slow
def test_killed_at_every_step_of_it(store: Store, folder: DataFolder, tmp_path: Any, migrated: bytes) -> None:
    steps = scenario(store, folder, dies_at=0)[0].steps
    for dies_at in range(1, steps + 1):
        data = DataFolder(tmp_path / str(dies_at))
        data.root.mkdir()
        data.database.write_bytes(migrated)
        with open_store(data.database) as fresh:
            lives, attempts = scenario(fresh, data, dies_at)
            assert len(attempts) == 1, "it was never restarted"
            leavers = [w for w in attempts[0].workers if w.left_at is not None]
            assert len(leavers) >= 2
            assert all((w.ended_at or 0.0) - w.left_at <= 1.0 for w in leavers), "they were told in time"
            states = [fresh.job(JobId(n)).job.state for n in (1, 2)]  # type: ignore[union-attr]
            assert states == ["succeeded", "succeeded"], dies_at
            assert fresh.leases() == []
            assert max(lives.begun.values()) == 1, "a worker was started twice"
            assert {worker.id for worker in attempts[0].workers} >= {w for w in lives.begun if w.job == 1}


# --- what is told again


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    store.set_setting("policy", {"preset": "elastic-fifo"})
    return Bench(store, folder, clock, node("a", cpus=3))


def shrunk(bench: Bench) -> JobId:
    """A job with workers 0 and 1; 2 was told to leave."""
    job = bench.submit(workers=(1, 1, 3), launcher=LauncherKind.ELASTIC, preemptible=Preemptible.YES)
    bench.cycle()
    for rank in range(3):
        bench.executor.started(f"{job}.1.{rank}", bench.clock.now())
    bench.cycle()
    bench.submit()
    calls = bench.cycle()
    assert calls == [("regroup", f"1.1.{rank}", 1, (0, 1)) for rank in range(3)]
    return job


def test_a_restart_tells_everybody_of_the_group_again(bench: Bench) -> None:
    shrunk(bench)
    bench.live()
    calls = bench.executor.take_calls()
    for rank in range(3):
        about = [call for call in calls if call[1] == f"1.1.{rank}"]
        assert about == [
            ("adopt", f"1.1.{rank}"),
            ("regroup", f"1.1.{rank}", 1, (0, 1)),
            ("resume", f"1.1.{rank}"),
        ]


def test_one_that_does_not_leave_is_killed_also_after_a_restart(bench: Bench) -> None:
    shrunk(bench)
    bench.live()
    bench.executor.take_calls()
    assert bench.cycle(29.0) == []
    assert bench.cycle(1.1) == [("stop", "1.1.2", 0.0)]


def test_new_workers_that_were_recorded_but_not_started_are_started_after_a_restart(bench: Bench) -> None:
    shrunk(bench)
    bench.exited("1.1.2")
    bench.cycle()
    bench.executor.started("2.1.0", bench.clock.now())
    bench.cycle()
    bench.exited("2.1.0")
    assert ("start", "1.1.3") in bench.cycle()
    launch = bench.executor.launches["1.1.3"]
    assert (launch.group, launch.world_size, launch.local_rank) == ((2, (0, 1, 3)), 3, 2)
    bench.live()
    calls = bench.executor.take_calls()
    assert ("start", "1.1.3") in calls
    assert ("start", "1.1.0") not in calls


def test_a_paused_job_lets_its_leavers_go_after_a_restart(bench: Bench) -> None:
    job = shrunk(bench)
    bench.ask("pause", job)
    bench.cycle()
    bench.live()
    calls = bench.executor.take_calls()
    assert [call for call in calls if call[0] == "pause"] == [("pause", "1.1.0"), ("pause", "1.1.1")]
    assert ("resume", "1.1.2") in calls


# --- what is shown


def test_the_workers_of_a_job_are_those_who_train(bench: Bench) -> None:
    job = shrunk(bench)
    row = bench.store.job(job)
    assert row
    assert [place.rank for place in row.placement] == [0, 1]
    assert len(bench.store.leases()) == 3, "who leaves keeps its lease"


def test_the_curve_goes_on_when_another_one_leads(bench: Bench) -> None:
    job = shrunk(bench)
    for rank in (0, 1):
        at, loss = bench.clock.now(), 0.5 / (rank + 1)
        add_reports(bench.store, WorkerId(job, 1, rank), [Point(0, at, 7 + rank, "loss", loss)], at)
    assert [(point.step, point.value) for point in bench.store.curve(job, "loss")] == [(7, 0.5), (8, 0.25)]
    row = bench.store.job(job)
    assert row
    assert row.progress
    assert (row.progress.step, row.progress.value) == (8, 0.25)


def test_the_output_of_the_new_leader_is_followed(bench: Bench) -> None:
    job = shrunk(bench)
    log = bench.worker_folder(WorkerId(job, 1, 1)) / "log"
    log.mkdir(parents=True)
    bench.exited("1.1.0", KILLED)
    bench.cycle()
    (log / "0.log").write_bytes(b"step 3 loss 0.125\n")
    bench.exited("1.1.1")
    bench.cycle()
    assert [(s.name, s.last) for s in bench.store.series_of(job)] == [("loss", 0.125)]


def test_a_range_is_kept_over_a_restart(bench: Bench) -> None:
    job = bench.submit(workers=(1, 1, 2), launcher=LauncherKind.ELASTIC, preemptible=Preemptible.YES)
    bench.cycle()
    for rank in range(2):
        bench.executor.started(f"{job}.1.{rank}", bench.clock.now())
    bench.cycle()
    bench.ask("update", job, workers={"min": 1, "want": 2, "max": 3})
    assert ("start", f"{job}.1.2") in bench.cycle()
    bench.live()
    assert bench.scheduler.state.jobs[job].shape.workers.max == 3
    assert bench.job(job).spec.workers.want == 2


def test_a_node_that_is_gone_takes_only_its_own_workers(store: Store, folder: DataFolder, clock: HandClock) -> None:
    store.set_setting("policy", {"preset": "elastic-fifo"})
    bench = Bench(store, folder, clock, node("a", cpus=1), node("b", cpus=1))
    job = bench.submit(workers=(1, 1, 2), launcher=LauncherKind.ELASTIC, preemptible=Preemptible.YES)
    bench.cycle()
    places = {worker.node: str(worker.id) for worker in store.attempts_of(job)[0].workers}
    for worker in places.values():
        bench.executor.started(worker, clock.now())
    bench.cycle()
    bench.ask("node_remove", None, node=NodeName("b"), force=False)
    bench.cycle()
    bench.exited(places[NodeName("b")], KILLED)
    bench.cycle()
    assert bench.state(job) == "running"
    assert [lease.node for lease in store.leases()] == ["a"]
