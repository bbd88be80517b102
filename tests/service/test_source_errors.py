"""How far off sources of estimates were: taken down whatever the policy asks, shown, and kept over restarts."""

from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.advice import Adviser
from schedulearn.store import Point, Store
from schedulearn.wire import types
from support.builders import BROKEN
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    """Under first in, first out, which asks for no estimate at all."""
    return Bench(store, folder, clock)


def began(bench: Bench, announced: int) -> JobId:
    """It runs, and has done a tenth of its 100 steps of a second each."""
    job = bench.running(cpus=2, name="train", steps=announced)
    now = bench.clock.now()
    bench.store.add_points(job, 1, 0, "report", [Point(k, now + k, k, "loss", 1.0) for k in range(1, 11)])
    bench.cycle(10.0)
    return job


def ended(bench: Bench, job: JobId, seconds: float = 90.0, outcome: Any = None) -> None:
    bench.clock.pass_time(seconds)
    bench.exited(f"{job}.1.0", *([outcome] if outcome else []))
    bench.cycle()


def errors(bench: Bench) -> dict[str, types.SourceErrors]:
    """As a user is told, in any process."""
    return {one["source"]: one for one in Adviser(bench.store).errors(bench.clock.now())}


def test_announcements_are_scored_against_the_truth_and_jobs_alike(bench: Bench) -> None:
    for _ in range(3):
        ended(bench, began(bench, 300))
    assert errors(bench) == {}, "nothing was known beside them yet"
    for _ in range(5):
        ended(bench, began(bench, 300))
    found = errors(bench)["steps"]
    assert (found["count"], found["error"], found["believed"]) == (5, pytest.approx(2.0, rel=0.02), False)
    assert found["without"] == pytest.approx(0.0, abs=0.02)


def test_a_restart_forgets_no_score_and_nothing_that_was_told(bench: Bench) -> None:
    for _ in range(8):
        ended(bench, began(bench, 300))
    known = errors(bench)
    running = began(bench, 100)
    bench.cycle(10.0)
    told = bench.store.setting("estimates_told")
    bench.live()
    assert errors(bench) == known
    # Told anew, after most of its work, it would be nearly certain: what counts is what was told first.
    now = bench.clock.now()
    bench.store.add_points(running, 1, 0, "report", [Point(k, now, k, "loss", 1.0) for k in range(11, 95)])
    bench.cycle(20.0)
    bench.cycle(20.0)
    assert bench.store.setting("estimates_told") == told
    ended(bench, running)
    assert bench.store.setting("estimates_told") == []
    assert errors(bench)["steps"]["count"] == known["steps"]["count"] + 1


def test_what_is_not_believed_is_not_shown_to_users_either(bench: Bench) -> None:
    for _ in range(8):
        ended(bench, began(bench, 300))
    job = began(bench, 300)
    row = bench.store.job(job)
    assert row
    told = Adviser(bench.store).advise(row, bench.clock.now())
    assert told.weight
    assert told.weight.amount.source.startswith("jobs of the same")
    assert told.weight.amount.expected == pytest.approx(2 * 100.0, rel=0.05)


def test_jobs_that_fail_are_not_scored_and_not_kept(bench: Bench) -> None:
    for _ in range(3):
        ended(bench, began(bench, 300))
    job = began(bench, 300)
    bench.cycle(10.0)
    assert [told[0] for told in bench.store.setting("estimates_told")] == [job]
    ended(bench, job, outcome=BROKEN)
    ended(bench, began(bench, 300))
    assert bench.store.setting("estimates_told") == []
    assert errors(bench)["steps"]["count"] == 1
