"""Migration with a real store and several nodes: over crashes of the service, and what is measured of it."""

import pytest

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.spec import Preemptible
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import Store
from support.builders import KILLED, node
from support.clock import HandClock
from support.scheduling import Bench


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock, node("a", cpus=2), node("b", cpus=2))


def where(bench: Bench, worker: str) -> str:
    return str(bench.executor.launches[worker].node)


def move(bench: Bench, job: JobId, to: str = "b") -> list[tuple[object, ...]]:
    bench.ask("migrate", job, node=to)
    return bench.cycle()


def test_from_the_request_to_the_arrival(bench: Bench) -> None:
    job = bench.running(cpus=2, grace=5.0)
    assert where(bench, "1.1.0") == "a"
    assert move(bench, job) == [("stop", "1.1.0", 5.0)]
    assert bench.cycle(1.0) == [], "nothing starts before the old place is left"
    bench.exited("1.1.0", KILLED)
    assert bench.cycle(1.0) == [("start", "1.2.0")]
    assert where(bench, "1.2.0") == "b"
    bench.executor.started("1.2.0", bench.clock.now() + 0.5)
    bench.cycle(0.5)
    assert (bench.job(job).migrations, bench.job(job).migration_seconds) == (1, 2.5)
    assert bench.store.attempts_of(job)[0].stop == "migrate"
    told = bench.store.events_after(0, job)[-1].event
    assert (told.kind, told.data) == ("migrated", {"from": ["a"], "to": ["b"], "seconds": 2.5})


@pytest.mark.parametrize("crashes", [(1,), (2,), (3,), (1, 2, 3)])
def test_the_service_may_die_at_any_moment_of_it(bench: Bench, crashes: tuple[int, ...]) -> None:
    def crash(moment: int) -> None:
        if moment in crashes:
            bench.live()

    job = bench.running(cpus=2)
    move(bench, job)
    crash(1)  # it is being stopped
    bench.exited("1.1.0", KILLED)
    bench.cycle(1.0)
    crash(2)  # it is being started over there
    bench.cycle()
    assert where(bench, "1.2.0") == "b"
    bench.executor.started("1.2.0", bench.clock.now())
    crash(3)  # nobody heard that it runs; the executor says it again
    bench.executor.started("1.2.0", bench.clock.now())
    bench.cycle()
    assert (bench.state(job), bench.job(job).migrations, bench.job(job).move) == ("running", 1, None)
    assert [str(lease.worker) for lease in bench.store.leases()] == ["1.2.0"]


def test_a_restart_while_it_waits_for_the_place(store: Store, folder: DataFolder, clock: HandClock) -> None:
    bench = Bench(store, folder, clock, node("a", cpus=2), node("b", cpus=2), node("c", cpus=2))
    first, second = bench.running(cpus=2), bench.running(cpus=2)
    move(bench, second, "c")
    move(bench, first, "b")
    bench.exited("1.1.0", KILLED)
    bench.cycle()
    assert bench.state(first) == "queued"
    bench.live()
    assert ("start", "1.2.0") not in bench.cycle(), "job 2 has not left b yet"
    explained = Explainer(store, clock).explain(first)
    assert (explained.stage, explained.text.startswith("It moves from a to b")) == ("migrate", True)
    bench.exited("2.1.0", KILLED)
    bench.cycle()
    assert (where(bench, "1.2.0"), where(bench, "2.2.0")) == ("b", "c")


def test_what_has_changed_since_it_was_asked_is_told(bench: Bench) -> None:
    job = bench.running(cpus=2)
    bench.ask("drain", None, node="b", drain=True)
    assert move(bench, job) == []
    told = bench.store.events_after(0, job)[-1].event
    assert (told.kind, "b is draining" in told.cause) == ("not_migrated", True)


def test_jobs_that_are_apart_are_brought_together_by_the_policy(
    store: Store, folder: DataFolder, clock: HandClock
) -> None:
    store.set_setting("policy", {"preset": "fifo", "stages": {"migrate": "consolidate"}, "params": {}})
    bench = Bench(store, folder, clock, node("a", cpus=2), node("b", cpus=2))
    small = [bench.running(cpus=1) for _ in range(3)]
    bench.exited(f"{small[0]}.1.0")
    bench.cycle()
    wide = bench.submit(cpus=1, workers=2, preemptible=Preemptible.YES)
    bench.cycle()
    for rank in (0, 1):
        bench.executor.started(f"{wide}.1.{rank}", clock.now())
    bench.cycle()
    assert {where(bench, f"{wide}.1.{rank}") for rank in (0, 1)} == {"a", "b"}
    assert bench.cycle(1000.0) == [], "there is no room for it on one node"
    bench.exited(f"{small[1]}.1.0")
    assert [call[0] for call in bench.cycle(400.0)] == ["stop", "stop"]
    assert bench.job(wide).reason.startswith("moves to a (consolidate: saves about ")
    for rank in (0, 1):
        bench.exited(f"{wide}.1.{rank}", KILLED)
    bench.cycle()
    assert {where(bench, f"{wide}.2.{rank}") for rank in (0, 1)} == {"a"}


def test_moves_are_measured_for_the_next_decision(bench: Bench) -> None:
    moved = bench.running(cpus=2)
    assert LiveFacts(bench.store).restart_cost(bench.job(moved)) == 10.0, "a guess, as long as nothing is known"
    move(bench, moved)
    bench.cycle(2.0)
    bench.exited("1.1.0", KILLED)
    bench.cycle(3.0)
    bench.executor.started("1.2.0", bench.clock.now())
    bench.cycle()
    assert LiveFacts(bench.store).restart_cost(bench.job(moved)) == 2.0, "it took 2 s to stop, and started at once"
    assert NodeName("b") in {lease.node for lease in bench.store.leases()}
