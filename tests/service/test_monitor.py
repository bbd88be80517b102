"""What workers use, looked at and written down; and limits from the request to the executor."""

from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet
from schedulearn.core.domain.ids import NodeName, WorkerId
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.service.common.config import DataFolder
from schedulearn.service.learn.monitor import Monitor
from schedulearn.store import Store
from support.builders import node
from support.clock import HandClock
from support.scheduling import Bench
from support.waiting import wait_until


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock, node("a", cpus=8))


@pytest.fixture
def monitor(bench: Bench) -> Monitor:
    return Monitor(bench.store, bench.executor)


def use(bench: Bench, worker: str, at: float, cpu_seconds: float, **more: Any) -> None:
    bench.executor.used[worker] = Usage(at, cpu_seconds, **more)


def test_a_worker_is_looked_at_while_it_runs(bench: Bench, monitor: Monitor) -> None:
    job = bench.running()
    monitor.look()
    assert bench.store.usage_now() == [], "nothing is known of it yet"
    use(bench, "1.1.0", 100.0, 1.0)
    monitor.look()
    use(bench, "1.1.0", 110.0, 6.0, memory=5)
    monitor.look()
    (found,) = bench.store.usage_now()
    assert (found.worker, found.cpus, found.latest.memory) == (WorkerId(job, 1, 0), 0.5, 5)
    bench.exited("1.1.0")
    bench.cycle()
    monitor.look()
    assert bench.store.usage_now() == []
    assert len(bench.store.usage_of(job, 1)[0].points) == 2


def test_an_engine_with_nothing_new_to_tell_adds_no_point(bench: Bench, monitor: Monitor) -> None:
    job = bench.running()
    use(bench, "1.1.0", 100.0, 1.0)
    for _ in range(3):
        monitor.look()
    use(bench, "1.1.0", 104.0, 3.0)
    monitor.look()
    (found,) = bench.store.usage_of(job, 1)
    assert ([point.at for point in found.points], found.cpus) == ([100.0, 104.0], 0.5)


def test_energy_goes_on_from_where_an_earlier_life_left_it(bench: Bench, monitor: Monitor) -> None:
    job = bench.running()
    for at, joules in ((100.0, 0.0), (105.0, 40.0)):
        use(bench, "1.1.0", at, at, energy=joules)
        monitor.look()
    next_life = Monitor(bench.store, bench.executor)
    for at, joules in ((110.0, 0.0), (115.0, 2.5)):
        use(bench, "1.1.0", at, at, energy=joules)
        next_life.look()
    points = bench.store.usage_of(job, 1)[0].points
    assert [point.energy for point in points] == [0.0, 40.0, 40.0, 42.5]


def test_an_engine_that_fails_hides_no_other(bench: Bench, monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.running()
    second = bench.running()

    def usage(worker: WorkerId, node: NodeName) -> Usage:
        if worker.job == second:
            return Usage(1.0, 1.0)
        raise RuntimeError("out of order")

    monkeypatch.setattr(bench.executor, "usage", usage)
    monitor.look()
    assert [found.worker.job for found in bench.store.usage_now()] == [second]


def test_its_thread_survives_a_store_that_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.running()
    use(bench, "1.1.0", 100.0, 1.0)
    monitor = Monitor(bench.store, bench.executor, every=0.01)
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "add_usage", None)
        monitor.start()
        wait_until(lambda: "could not be written down" in caplog.text, 60.0, "a failed look")
    wait_until(bench.store.usage_now, 60.0, "a look that works again")
    monitor.close()


# --- limits


def test_a_limit_for_a_running_job(bench: Bench) -> None:
    job = bench.submit(workers=2)
    bench.cycle()
    for worker in ("1.1.0", "1.1.1"):
        bench.executor.started(worker, bench.clock.now())
    bench.cycle()
    bench.ask("update", job, cpus_limit=0.5)
    asked = Limits(cpus=0.5)
    assert bench.cycle() == [("set_limits", "1.1.0", asked), ("set_limits", "1.1.1", asked)]
    assert bench.job(job).cpus_limit == 0.5
    bench.ask("update", job, cpus_limit=None)
    assert bench.cycle()[0] == ("set_limits", "1.1.0", Limits(cpus=1.0)), "what the spec says"


def test_a_limit_for_a_queued_job_holds_from_its_start(bench: Bench) -> None:
    job = bench.submit()
    bench.ask("update", job, cpus_limit=0.25)
    assert bench.cycle() == [("start", "1.1.0")]
    assert bench.executor.launches["1.1.0"].cpu_limit == 0.25


def test_other_changes_leave_limits_alone(bench: Bench) -> None:
    job = bench.running()
    bench.ask("update", job, priority=70)
    assert bench.cycle() == []


def test_a_limit_that_a_crash_may_have_lost_is_set_again(bench: Bench) -> None:
    job = bench.running()
    bench.ask("update", job, cpus_limit=0.5)
    bench.cycle()
    bench.live()
    assert ("set_limits", "1.1.0", Limits(cpus=0.5)) in bench.executor.take_calls()


def test_what_came_of_it_is_in_the_story(bench: Bench) -> None:
    job = bench.running()
    worker = WorkerId(job, 1, 0)
    for event in (
        LimitsSet(1.0, worker, Limits(0.5, 30, 10**9)),
        LimitsSet(2.0, worker, Limits(cpus=0.1), "no control groups here"),
        LimitsSet(3.0, WorkerId(job, 7, 0), Limits(cpus=0.1)),
    ):
        bench.scheduler.post(event)
    bench.cycle()
    told = [stored.event for stored in bench.store.events_after(0, job) if stored.event.kind.startswith("limits")]
    assert [(event.kind, event.cause) for event in told] == [
        ("limits_set", "worker 1.1.0 may use 0.5 cores, weight 30, 1 GB of memory"),
        ("limits_refused", "worker 1.1.0 keeps its limits: no control groups here"),
    ]
    assert told[0].data == {"cpus": 0.5, "weight": 30, "memory": 10**9}
    assert told[0].node == "a"
