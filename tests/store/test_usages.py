"""What workers use: the latest exact, the curve thinned, and rates that thinning does not change."""

from dataclasses import replace
from itertools import product

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.usage import Limits, Usage, cores_used
from schedulearn.store import UsageSample, WorkerUsage, thinning

AT = 1_700_000_000.25
FULL = Usage(AT, 12.5, 3 << 30, 2**40, 7, 2**41, 9, 1.25, Limits(0.5, 30, 4 << 30))


def look(n, **more):
    """One every five seconds, at three quarters of a core; memory rises and falls."""
    return Usage(AT + 5 * n, 3.75 * n, memory=1000 - abs(n - 10), **more)


def add(store, worker, *looks, cpus=None):
    for one in looks:
        store.add_usage([UsageSample(worker, one, cpus)])


@pytest.fixture
def worker(make):
    return WorkerId(make.running(workers=2).id, 1, 0)


def test_every_field_survives(store, worker):
    add(store, worker, FULL, cpus=0.75)
    assert store.usage_of(worker.job, 1) == [WorkerUsage(worker, FULL, 0.75, 3 << 30, (FULL,))]


def test_what_a_machine_cannot_tell_stays_unknown(store, worker):
    bare = Usage(AT, 1.0)
    add(store, worker, bare)
    assert store.usage_of(worker.job, 1) == [WorkerUsage(worker, bare, None, None, (bare,))]


def test_workers_and_attempts_apart(store, make, worker):
    other = WorkerId(worker.job, 1, 1)
    store.add_usage([UsageSample(worker, look(0)), UsageSample(other, look(1))])
    add(store, other, look(2))
    first, second = store.usage_of(worker.job, 1)
    assert (first.points, second.points) == ((look(0),), (look(1), look(2)))
    assert store.usage_of(worker.job, 2) == []


def test_a_long_run_is_thinned_and_its_rates_stay_exact(store, worker, contents, monkeypatch):
    monkeypatch.setattr(thinning, "MOST_POINTS", 20)
    add(store, worker, *(look(n) for n in range(100)))
    (kept,) = store.usage_of(worker.job, 1)
    assert len(kept.points) <= 21
    assert len(contents()["usage_points"]) <= 20
    assert kept.points[0] == look(0)
    assert kept.points[-1] == kept.latest == look(99)
    assert kept.memory_peak == 1000, "the peak was thinned away, and is known all the same"
    rates = [cores_used(a, b) for a, b in zip(kept.points, kept.points[1:], strict=False)]
    assert rates == pytest.approx([0.75] * len(rates))


def test_reading_less_than_is_kept(store, worker):
    add(store, worker, *(look(n) for n in range(31)))
    for since, most in product([None, AT, AT + 61, AT + 147], [1, 2, 3, 7, 30, 31]):
        (found,) = store.usage_of(worker.job, 1, since, most)
        assert 1 <= len(found.points) <= most
        assert found.points[-1] == look(30)
        assert all(point.at >= (since or 0) for point in found.points)
        if most == 31:
            assert len(found.points) == sum(look(n).at >= (since or 0) for n in range(31))


def test_since_after_the_last_look(store, worker):
    add(store, worker, look(0))
    (found,) = store.usage_of(worker.job, 1, AT + 1)
    assert (found.points, found.latest) == ((), look(0))


def test_now_means_workers_that_hold_something(store, make, worker):
    done = make.running()
    gone = WorkerId(done.id, 1, 0)
    store.add_usage([UsageSample(worker, look(0), 0.5), UsageSample(gone, look(0))])
    make.save(leases_ended=[gone])
    assert store.usage_now() == [WorkerUsage(worker, look(0), 0.5, 990)]
    assert len(store.usage_of(done.id, 1)) == 1, "what it used is still known"


def test_a_worker_that_nobody_knows_is_left_out(store, worker):
    stranger = WorkerId(JobId(4711), 1, 0)
    store.add_usage([UsageSample(stranger, look(0)), UsageSample(worker, look(0))])
    assert [one.worker for one in store.usage_now()] == [worker]
    store.add_usage([UsageSample(stranger, look(0))])
    store.add_usage([])


def test_it_goes_with_its_job(store, make, worker, contents):
    add(store, worker, look(0), look(1))
    make.save(forgotten=[worker.job])
    assert contents()["usage"] == contents()["usage_points"] == []


def test_many_workers_cost_few_statements(store, make, statements):
    workers = [WorkerId(make.running().id, 1, 0) for _ in range(50)]
    del statements[:]
    store.add_usage([UsageSample(worker, replace(look(0), at=AT)) for worker in workers])
    assert len(statements) <= 4
