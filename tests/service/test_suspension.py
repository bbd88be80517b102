"""Time-slicing with a real store: what is written while jobs are suspended, and what a restart makes of it."""

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.resources import Resources
from schedulearn.service.common.config import DataFolder
from schedulearn.store import Store
from support.builders import KILLED, OK, node
from support.clock import HandClock
from support.scheduling import Bench

GB = 10**9


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock, node("a", gpus=1))


def shared(bench: Bench) -> tuple[JobId, JobId]:
    """Two jobs on one device: the first has had its turn, the second runs."""
    bench.ask("policy", preset="gandiva")
    first = bench.running(gpus=1, memory=10 * GB)
    second = bench.submit(gpus=1, memory=20 * GB)
    bench.cycle()
    assert bench.cycle(60) == [("pause", f"{first}.1.0")]
    assert bench.state(first) == "queued"
    bench.executor.paused(f"{first}.1.0", bench.clock.now())
    assert bench.cycle() == [("start", f"{second}.1.0")]
    bench.executor.started(f"{second}.1.0", bench.clock.now())
    bench.cycle()
    return first, second


def test_leases_shrink_and_grow_in_the_store(bench: Bench) -> None:
    first, second = shared(bench)
    whole = Resources(gpus=1, cpus=1)
    held = {lease.worker.job: (lease.amounts, lease.devices) for lease in bench.store.leases()}
    assert held == {
        first: (Resources(memory=10 * GB), ()),
        second: (whole + Resources(memory=20 * GB), ("a-gpu0",)),
    }
    bench.cycle(60)
    bench.executor.paused(f"{second}.1.0", bench.clock.now())
    assert bench.cycle() == [("resume", f"{first}.1.0")]
    held = {lease.worker.job: (lease.amounts, lease.devices) for lease in bench.store.leases()}
    assert held == {
        first: (whole + Resources(memory=10 * GB), ("a-gpu0",)),
        second: (Resources(memory=20 * GB), ()),
    }
    assert bench.story(first)[-2:] == ["suspend", "resume"]
    bench.exited(f"{first}.1.0", OK)
    assert bench.cycle() == [("resume", f"{second}.1.0")]
    bench.exited(f"{second}.1.0", OK)
    bench.cycle()
    assert bench.store.leases() == []


def test_the_suspended_stay_suspended_over_a_restart(bench: Bench) -> None:
    first, second = shared(bench)
    bench.live()
    calls = bench.executor.take_calls()
    assert sorted(calls) == [
        ("adopt", f"{first}.1.0"),
        ("adopt", f"{second}.1.0"),
        ("pause", f"{first}.1.0"),
        ("resume", f"{second}.1.0"),
    ]
    assert bench.cycle() == []
    bench.executor.paused(f"{first}.1.0", bench.clock.now())
    assert bench.cycle() == []
    assert bench.cycle(60) == [("pause", f"{second}.1.0")]
    bench.executor.paused(f"{second}.1.0", bench.clock.now())
    assert bench.cycle() == [("resume", f"{first}.1.0")]
    assert bench.job(first).attempt == 1


def test_a_pause_that_got_lost_is_given_again(bench: Bench) -> None:
    bench.ask("policy", preset="gandiva")
    first = bench.running(gpus=1)
    second = bench.submit(gpus=1)
    bench.cycle()
    bench.cycle(60)
    bench.live()
    assert ("pause", f"{first}.1.0") in bench.executor.take_calls()
    assert bench.cycle() == [], "it may still compute"
    bench.executor.paused(f"{first}.1.0", bench.clock.now())
    assert bench.cycle() == [("start", f"{second}.1.0")]


def test_one_that_was_suspended_before_it_had_started_is_started_again_and_paused(bench: Bench) -> None:
    bench.ask("policy", preset="gandiva")
    first = bench.submit(gpus=1, priority=10)
    bench.cycle()
    bench.submit(gpus=1, priority=90)
    assert bench.cycle() == [("pause", f"{first}.1.0")]
    bench.live()
    calls = bench.executor.take_calls()
    assert calls[0] == ("start", f"{first}.1.0")
    assert calls[-1] == ("pause", f"{first}.1.0")


def test_a_suspended_job_in_the_list_says_what_it_is_and_where(bench: Bench) -> None:
    first, _ = shared(bench)
    row = bench.store.job(first)
    assert row
    assert (row.job.state, row.job.reason) == ("queued", "suspended: others have their turn")
    assert [(placed.node, placed.devices) for placed in row.placement] == [("a", ())]


def test_one_that_dies_while_nobody_watches(bench: Bench) -> None:
    first, second = shared(bench)
    bench.live()
    bench.exited(f"{first}.1.0", KILLED)
    bench.cycle()
    assert bench.state(first) == "failed"
    assert [lease.worker.job for lease in bench.store.leases()] == [second]


def test_another_policy_while_a_job_is_suspended_and_a_restart(bench: Bench) -> None:
    first, second = shared(bench)
    bench.ask("policy", preset="fifo")
    bench.cycle(3600)
    bench.live()
    bench.executor.paused(f"{first}.1.0", bench.clock.now())
    bench.cycle()
    assert bench.state(second) == "running"
    bench.exited(f"{second}.1.0", OK)
    assert bench.cycle() == [("resume", f"{first}.1.0")]
    assert bench.job(first).attempt == 1
