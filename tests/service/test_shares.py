"""The share loops of the service: who is limited, what is written down, and what happens when something goes wrong.

The machine's own thread is played by the test, except where threads are what it is about.
"""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet, Shared
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Accrual
from schedulearn.core.domain.spec import JobSpec, Launcher, WorkerResources
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.core.policies.catalogue.registry import STAGES, StageInfo
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.sharing import ShareNode, Shares
from schedulearn.service.common.config import DataFolder
from schedulearn.service.share.container_monitor import LiveContainerMonitor, WorkLeft
from schedulearn.service.share.machine import SharedMachine
from schedulearn.service.share.snapshots import JobSnapshot, MachineSnapshot, snapshots
from schedulearn.store import Point, Store
from support.builders import job, node
from support.clock import HandClock
from support.executor import FakeExecutor
from support.scheduling import Bench
from support.waiting import wait_until

A = NodeName("a")


class Says:
    """Limits as the test wants them, and remembers what it saw."""

    def __init__(self, limits: Callable[[ShareNode], dict[int, float]] = lambda node: {}) -> None:
        self.limits = limits
        self.saw: list[dict[str, Any]] = []
        self.counts, self.remembers, self.remembered = True, dict[str, Any](), dict[str, Any]()

    def share(self, node: ShareNode, memory: Any) -> Shares:
        self.saw.append({str(c.job): c for c in node.containers()})
        self.remembered = dict(memory)
        memory.update(self.remembers)
        if self.counts:
            memory["looks"] = memory.get("looks", 0) + 1
        return Shares({JobId(number): cores for number, cores in self.limits(node).items()}, node.now + 5)


def job_here(
    number: int, *ranks: int, cpus: float = 2.0, least: float = 0.1, at: float = 0.0, attempt: int = 1
) -> JobSnapshot:
    workers = tuple(WorkerId(JobId(number), attempt, rank) for rank in ranks or (0,))
    return JobSnapshot(JobId(number), at, workers, cpus, least * len(workers), Accrual(), job(number, steps=100))


class World:
    """One machine, without a thread."""

    def __init__(self, store: Store, clock: HandClock, stage: Any, saved: Any = None) -> None:
        self.store, self.clock, self.stage = store, clock, stage
        self.executor = FakeExecutor(node("a", cpus=4))
        self.posted: list[Shared] = []
        self.live(saved)

    def live(self, saved: Any = None) -> None:
        self.monitor = LiveContainerMonitor(A, self.store, self.executor, WorkLeft(self.store))
        self.machine = SharedMachine(A, self.monitor, self.executor, self.clock, self.posted.append, saved)
        self.machine.follow(self.stage, "says")

    def look(self, *jobs: JobSnapshot) -> dict[str, float]:
        """What workers were told."""
        self.machine.tell(MachineSnapshot(4.0, jobs))
        self.machine.look()
        told = [call for call in self.executor.take_calls() if call[0] == "set_limits"]
        return {str(worker): limits.cpus for _, worker, limits in told}  # type: ignore[attr-defined]

    def notes(self) -> list[str]:
        return [note.kind for event in self.posted for note in event.notes]

    def refuse(self, worker: str, cores: float) -> bool:
        return self.answer(worker, cores, "no control groups")

    def answer(self, worker: str, cores: float, problem: str = "", *, automatic: bool = True) -> bool:
        event = LimitsSet(0.0, WorkerId.parse(worker), Limits(cpus=cores), problem, automatic=automatic)
        return self.machine.answered(event)

    def shows(self, worker: str, cores: float) -> None:
        """What the kernel says."""
        self.executor.used[worker] = Usage(0.0, 1.0, limits=Limits(cpus=cores))


@pytest.fixture
def stage() -> Says:
    return Says()


@pytest.fixture
def world(store: Store, clock: HandClock, stage: Says) -> World:
    return World(store, clock, stage)


# --- limits


def test_a_limit_is_for_all_workers_of_the_job_and_changes_with_their_number(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 1.5}
    assert world.look(job_here(1, 0, 1), job_here(2)) == {"1.1.0": 0.75, "1.1.1": 0.75}
    stage.limits = lambda node: {}
    assert world.look(job_here(1, 0, 1), job_here(2)) == {}, "nothing has changed"
    assert world.look(job_here(1, 0, 1, 2), job_here(2)) == dict.fromkeys(("1.1.0", "1.1.1", "1.1.2"), 0.5)
    stage.limits = lambda node: {1: math.inf}
    assert set(world.look(job_here(1, 0, 1, 2), job_here(2)).values()) == {2.0}, "as many as its user lets it"


def test_nobody_gets_more_than_its_user_allows(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 1.5}
    world.look(job_here(1))
    assert stage.saw[-1]["1"].most == 2.0
    stage.limits = lambda node: {}
    assert world.look(job_here(1, cpus=1.0)) == {"1.1.0": 1.0}
    worker = WorkerId.parse("1.1.0")
    assert world.machine.within(worker, Limits(cpus=0.5)).cpus == 0.5
    assert world.machine.within(worker, Limits(cpus=2.0)).cpus == 1.5, "nor more than its machine's loop"
    assert world.look(job_here(1)) == {"1.1.0": 1.5}


def test_what_the_kernel_says_counts(world: World) -> None:
    world.executor.used["1.1.0"] = Usage(0.0, 1.0, limits=Limits(cpus=0.3))
    assert world.look(job_here(1)) == {"1.1.0": 2.0}, "left over from a life that had no time to write it down"
    world.executor.used["1.1.0"] = Usage(0.0, 1.0, limits=Limits(cpus=2.0))
    assert world.look(job_here(1)) == {}


def test_who_leaves_is_let_go_so_that_it_can_save(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1))
    stage.limits = lambda node: {}
    assert world.look() == {"1.1.0": 2.0}


def test_a_container_of_a_later_attempt_is_another_one(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1))
    stage.limits = lambda node: {}
    world.look(job_here(1, at=9.0, attempt=2))
    assert stage.saw[-1]["1"].limit is None


# --- what is kept


def test_a_loop_goes_on_where_an_earlier_life_left_it(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1), job_here(2))
    world.live(world.posted[-1].memory)
    stage.limits = lambda node: {}
    assert world.machine.look() is None, "before it is told who is there it changes nothing"
    assert world.look(job_here(1), job_here(2)) == {"1.1.0": 0.2}, "told again, in case that was lost"
    assert (stage.saw[-1]["1"].limit, stage.saw[-1]["2"].limit) == (0.2, None)
    assert world.posted[-1].memory["memory"] == {"looks": 2}  # type: ignore[index]


def test_another_stage_begins_with_an_empty_memory_and_the_limits_of_before(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1))
    world.machine.follow(None, "fair")
    assert not world.machine.is_idle
    world.shows("1.1.0", 0.2)
    assert world.look(job_here(1)) == {"1.1.0": 2.0}
    assert not world.machine.is_idle, "nobody has seen yet that it is free"
    assert kept(world)[1], "nor would the next life believe it"
    assert world.machine.look() == world.clock.now() + 1.0, "soon it will"
    world.shows("1.1.0", 2.0)
    world.look(job_here(1))
    assert world.posted[-1].memory is None
    assert world.machine.is_idle


@pytest.mark.parametrize("shown", [None, 0.2])
def test_limits_of_an_earlier_life_go_although_nothing_is_known_yet_of_who_has_them(
    world: World, stage: Says, shown: float | None
) -> None:
    """The service died before they were lifted. Workers are adopted later than the loop first looks."""
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1))
    world.stage = None
    world.live(world.posted[-1].memory)
    assert world.look(job_here(1)) == {"1.1.0": 2.0}
    if shown:
        world.shows("1.1.0", shown)
    assert world.look(job_here(1)) == ({"1.1.0": 2.0} if shown else {}), "what was told may have got lost"
    assert not world.machine.is_idle
    world.shows("1.1.0", 2.0)
    world.look(job_here(1))
    assert world.machine.is_idle


def test_a_limit_that_cannot_be_lifted_keeps_the_loop_at_it(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.2}
    world.look(job_here(1))
    world.shows("1.1.0", 0.2)
    world.machine.follow(None, "fair")
    world.look(job_here(1))
    assert world.refuse("1.1.0", 2.0)
    assert world.look(job_here(1)) == {}, "its engine needs time"
    assert not world.machine.is_idle
    world.clock.pass_time(10)
    assert world.look(job_here(1)) == {"1.1.0": 2.0}


def test_what_is_only_measured_is_written_down_once_a_minute(world: World, stage: Says) -> None:
    def measure(looks: int) -> int:
        before = len(world.posted)
        for _ in range(looks):
            world.clock.pass_time(5)
            stage.remembers = {**stage.remembers, "seen": {"1": {"cpu": world.clock.now()}}, "due": world.clock.now()}
            world.look(job_here(1))
        return len(world.posted) - before

    stage.counts = False
    measure(1)
    assert measure(11) == 0
    assert measure(1) == 1
    stage.remembers["order"] = [1]
    assert measure(1) == 1, "that is a decision"
    stage.limits = lambda node: {1: 0.5}
    assert measure(1) == 1
    stage.limits = lambda node: {}
    assert measure(3) == 0
    world.machine.follow(stage, "says")
    stage.remembers = {}
    world.look(job_here(1))
    assert stage.remembered["due"] == world.clock.now(), "other parameters do not make it forget what is not kept"


def test_a_machine_on_which_nothing_can_be_decided_is_left_alone(world: World) -> None:
    fixed = job_here(1, cpus=1.0, least=1.0)
    world.look(fixed)
    assert world.machine.look() is None
    world.look(fixed, job_here(2))
    assert world.machine.look() == world.clock.now() + 5


def test_who_asked_tells_whose_answer_it_is(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.5}
    world.look(job_here(1))
    stage.limits = lambda node: {1: 0.3}
    world.look(job_here(1))
    assert world.answer("1.1.0", 0.5), "an answer that is late"
    assert not world.answer("1.1.0", 0.3, automatic=False), "its user wants the very same"
    assert not world.answer("1.1.0", 0.3, "no control groups", automatic=False)
    assert world.look(job_here(1)) == {}
    assert world.notes() == []


def test_a_horovod_worker_that_carries_the_others_is_told_once(world: World, stage: Says) -> None:
    here = job_here(1, 0, 1)
    carried = replace(here, job=job(1, launcher=Launcher.HOROVOD))
    stage.limits = lambda node: {1: 1.0}
    assert world.look(carried) == {"1.1.0": 0.5, "1.1.1": 0.5}
    world.shows("1.1.0", 1.0)  # that of both
    world.shows("1.1.1", 0.5)
    assert world.look(carried) == {}
    assert world.look(here) == {"1.1.0": 0.5}, "of any other it is its own"


# --- what goes wrong


def kept(world: World) -> tuple[str, dict[str, Any], str]:
    memory = world.posted[-1].memory
    assert memory
    return memory["stage"], memory["limits"], memory["problem"]


def test_a_machine_that_cannot_set_limits_is_shared_fairly(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.5, 2: 0.5}
    world.look(job_here(1), job_here(2))
    world.executor.used["1.1.0"] = Usage(0.0, 1.0)
    assert world.refuse("1.1.0", 0.5)
    assert world.look(job_here(1), job_here(2)) == {"2.1.0": 2.0}
    (note,) = world.posted[-1].notes
    assert (note.kind, note.node, note.job) == ("share_refused", "a", 1)
    assert "no control groups" in note.cause
    world.shows("2.1.0", 2.0)
    world.look(job_here(1), job_here(2))
    assert kept(world) == ("fair", {}, "says cannot set limits there: no control groups")
    looks = len(stage.saw)
    assert world.look(job_here(1), job_here(2), job_here(3)) == {}
    assert (len(stage.saw), world.notes()) == (looks, ["share_refused"])
    world.clock.pass_time(299)
    assert world.look(job_here(1), job_here(2)) == {}
    world.machine.follow(stage, "says")
    retried = world.look(job_here(1), job_here(2))
    assert retried == {"1.1.0": 0.5, "2.1.0": 0.5}, "a policy that is set anew is tried anew"
    assert kept(world)[2] == ""
    world.refuse("1.1.0", 0.5)
    world.look(job_here(1), job_here(2))
    world.machine.follow(None, "fair")
    world.look(job_here(1), job_here(2))
    assert world.posted[-1].memory is None, "nobody wants it otherwise"


def test_a_worker_that_has_just_ended_refuses_nothing(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.5}
    world.look(job_here(1))
    assert world.refuse("1.1.0", 0.5)
    world.look(job_here(1))
    assert world.notes() == []
    world.look()
    assert not world.refuse("1.1.0", 0.5), "it is not there any more"


def test_a_machine_that_could_not_set_limits_is_tried_again(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.5}
    world.look(job_here(1))
    world.shows("1.1.0", 2.0)
    for _ in range(3):
        world.refuse("1.1.0", 0.5)
        assert world.look(job_here(1)) == {}
        assert kept(world)[0] == "fair"
        world.clock.pass_time(20)
        assert world.machine.look() == world.clock.now() + 280
        world.clock.pass_time(280)
        assert world.look(job_here(1)) == {"1.1.0": 0.5}
    assert world.notes() == ["share_refused"]
    world.answer("1.1.0", 0.5)
    world.shows("1.1.0", 0.5)
    assert world.look(job_here(1)) == {}
    assert (world.notes(), kept(world)[2]) == (["share_refused", "share_resumed"], "")
    world.clock.pass_time(600)
    world.look(job_here(1))
    assert len(world.notes()) == 2


def test_a_stage_that_fails_limits_nobody(world: World, stage: Says) -> None:
    stage.limits = lambda node: {1: 0.5}
    world.look(job_here(1))
    stage.limits = lambda node: {1: 0.01}  # below what its lease guarantees
    assert world.look(job_here(1)) == {"1.1.0": 2.0}
    fault = world.posted[-1].fault
    assert "share stage says on node a: BadPlan" in fault
    world.shows("1.1.0", 2.0)
    assert world.look(job_here(1)) == {}
    assert kept(world) == ("fair", {}, fault)
    assert [bool(event.fault) for event in world.posted] == [False, True, False], "said once"


# --- what is measured


def report(store: Store, number: JobId, first: int, *values: float, at: float = 0.0) -> None:
    points = [Point(first + i, at, first + i, "loss", value) for i, value in enumerate(values)]
    store.add_points(number, 1, 0, "report", points)


def test_values_count_once_and_only_those_of_this_attempt(bench: Bench, world: World) -> None:
    number, now = bench.running(), world.clock.now()
    report(bench.store, number, 1, 8.0, at=now - 60)
    report(bench.store, number, 2, 4.0, 2.0, math.nan, at=now)
    here = job_here(number, at=now - 10)
    world.look(here)
    assert world.monitor.evaluation(number, now - 10) == 3.0
    world.clock.pass_time(10)
    report(bench.store, number, 5, 1.0, at=now - 1000)  # another clock
    world.look(here)
    assert world.monitor.evaluation(number, now) == 1.0
    assert world.monitor.evaluation(number, now + 10) is None


def test_what_is_left_is_told_by_the_cpu_that_steps_took_however_slow_they_were(bench: Bench, world: World) -> None:
    number = bench.running()
    here = job_here(number, at=world.clock.now())
    for seconds, cpu, step in ((10, 20.0, 10), (10, 30.0, 20), (1000, 40.0, 30)):
        world.clock.pass_time(seconds)
        world.executor.used["1.1.0"] = Usage(world.clock.now(), cpu)
        report(bench.store, number, step, 1.0, at=world.clock.now())
        world.look(here)
    assert world.monitor.cpu_seconds(number) == 40.0
    left = world.monitor.left(number)
    assert left
    assert left.expected == pytest.approx(70.0), "70 steps of one core-second, without what it took to begin"


def test_a_counter_includes_workers_that_have_left(world: World) -> None:
    world.executor.used = {"1.1.0": Usage(0.0, 3.0), "1.1.1": Usage(0.0, 4.0)}
    world.look(job_here(1, 0, 1))
    world.look(job_here(1, 0))
    assert world.monitor.cpu_seconds(JobId(1)) == 7.0


def test_what_is_used_beside_cpu_is_told_where_all_workers_have_it_measured(world: World) -> None:
    one = {"memory": 5_000_000, "read_bytes": 1_000_000, "written_bytes": 2_000_000}
    world.executor.used = {
        "1.1.0": Usage(0.0, 1.0, **one, received_bytes=1, sent_bytes=1),
        "1.1.1": Usage(0.0, 1.0, **one),
    }
    world.look(job_here(1, 0, 1))
    assert world.monitor.other_use(JobId(1)) == {"memory": 10.0, "block": 6.0}, "the network is not, of one of them"
    world.executor.used = {}
    world.look(job_here(2, 0))
    assert world.monitor.other_use(JobId(2)) == {}


# --- in the service


class Halves:
    """Whoever is on a machine may use half a core. What the test puts into `before` happens first."""

    before: Callable[[ShareNode], object]

    def share(self, node: ShareNode, memory: Any) -> Shares:
        Halves.before(node)
        new = [container for container in node.containers() if container.limit is None]
        notes = [Note("share_limit", "half a core", container.job, node.name, {"after": 0.5}) for container in new]
        memory["jobs"] = [container.job for container in node.containers()]
        return Shares({container.job: 0.5 for container in new}, notes=notes)


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    Halves.before = staticmethod(lambda node: None)
    monkeypatch.setitem(STAGES["share"], "halves", StageInfo(Halves, "for this test"))
    made = Bench(store, folder, clock, node("a", cpus=4, gpus=1), node("b", cpus=4))
    yield made
    made.scheduler.close()


def set_share(bench: Bench, share: str) -> None:
    bench.ask("policy", preset="round-robin", stages={"share": share}, params={})
    bench.scheduler.cycle()


def until(bench: Bench, true: Callable[[], object]) -> None:
    """Loops have threads of their own: what they find comes in some cycle."""

    def look() -> object:
        bench.scheduler.cycle()
        return true()

    wait_until(look)


def told(bench: Bench) -> dict[str, float]:
    """The last limit that each worker was told."""
    calls = [call for call in bench.executor.calls if call[0] == "set_limits"]
    return {str(worker): limits.cpus for _, worker, limits in calls}  # type: ignore[attr-defined]


def limits_of(bench: Bench, number: JobId) -> int:
    return bench.story(number).count("share_limit")


def running(bench: Bench, count: int, **more: Any) -> list[JobId]:
    resources = WorkerResources(cpus_min=0.1, cpus_max=2.0, **more)
    jobs = [bench.store.add_job(JobSpec("job", "true", resources=resources), "ann", 0.0, "") for _ in range(count)]
    bench.scheduler.cycle()
    for number in jobs:
        bench.executor.started(f"{number}.1.0", bench.clock.now())
    bench.scheduler.cycle()
    return jobs


def test_who_arrives_is_limited_at_once_and_its_story_says_why(bench: Bench) -> None:
    set_share(bench, "halves")
    one, two = running(bench, 2)
    until(bench, lambda: limits_of(bench, one) and limits_of(bench, two))
    assert told(bench) == {f"{one}.1.0": 0.5, f"{two}.1.0": 0.5}
    event = next(found.event for found in bench.store.events_after(0, one) if found.event.kind == "share_limit")
    assert (event.node, event.attempt, event.data) == ("a", 1, {"after": 0.5})
    bench.executor.sink(LimitsSet(0.0, WorkerId(one, 1, 0), Limits(cpus=0.7), automatic=True))
    bench.executor.sink(LimitsSet(0.0, WorkerId(two, 1, 0), Limits(cpus=0.5)))
    bench.cycle()
    assert "limits_set" not in bench.story(one), "that was said, or will be"
    assert "limits_set" in bench.story(two), "that was somebody else"
    assert set(bench.store.load_state().shares) == {"a", "b"}


def test_its_user_may_allow_less_and_the_machine_still_less(bench: Bench) -> None:
    set_share(bench, "halves")
    (one,) = running(bench, 1)
    until(bench, lambda: limits_of(bench, one))
    for asked, given in ((0.3, 0.3), (1.0, 0.5)):
        bench.executor.take_calls()
        bench.ask("update", one, cpus_limit=asked)
        bench.scheduler.cycle()
        assert told(bench) == {f"{one}.1.0": given}


def test_only_jobs_without_gpus_are_limited(bench: Bench) -> None:
    set_share(bench, "halves")
    (with_gpu,) = running(bench, 1, gpus=1)
    (without,) = running(bench, 1)
    until(bench, lambda: limits_of(bench, without))
    assert told(bench) == {f"{without}.1.0": 0.5}
    assert not limits_of(bench, with_gpu)


def test_another_policy_lifts_all_limits_and_ends_the_loops(bench: Bench) -> None:
    set_share(bench, "halves")
    jobs = running(bench, 2)
    until(bench, lambda: all(limits_of(bench, number) for number in jobs))
    for number in jobs:
        bench.executor.used[f"{number}.1.0"] = Usage(0.0, 1.0, limits=Limits(cpus=2.0))
    set_share(bench, "fair")
    until(bench, lambda: not bench.store.load_state().shares)
    assert set(told(bench).values()) == {2.0}
    until(bench, lambda: not any(thread.name.startswith("share-") for thread in threading.enumerate()))


def test_after_a_crash_limits_are_as_they_were(bench: Bench) -> None:
    bench.clock.pass_time(0.12345678)  # more than the store keeps of a time
    set_share(bench, "halves")
    (one,) = running(bench, 1)
    until(bench, lambda: limits_of(bench, one))
    bench.ask("update", one, cpus_limit=1.0)
    bench.cycle()
    bench.scheduler.close()
    seen: list[float | None] = []
    Halves.before = staticmethod(lambda node: seen.extend(c.limit for c in node.containers()))
    bench.live()
    assert told(bench) == {f"{one}.1.0": 0.5}, "not what its user allows"
    until(bench, lambda: seen)
    assert (seen, limits_of(bench, one)) == ([0.5], 1)


def test_whole_cores_that_a_job_was_given_are_its_own(bench: Bench) -> None:
    bench.ask("policy", preset="cores-strict", stages={}, params={})
    (one,) = running(bench, 1)
    (snapshot,) = snapshots(bench.scheduler.state, {}).values()
    assert [(each.id, each.least, each.cpus) for each in snapshot.jobs] == [(one, 2.0, 2.0)]
    bench.ask("update", one, cpus_limit=1.5)
    bench.cycle()
    (snapshot,) = snapshots(bench.scheduler.state, {}).values()
    assert snapshot.jobs[0].least == 1.5, "no more than its user allows"


def test_a_limit_of_whole_cores_does_not_outlive_them(store: Store, folder: DataFolder, clock: HandClock) -> None:
    """A lease that is as the spec asks for does not tell whether it was of whole cores."""
    bench = Bench(store, folder, clock, node("a", cpus=1))
    bench.ask("policy", preset="cores-strict", stages={}, params={})
    number = bench.running(cpus=1, cpus_max=2)
    bench.ask("policy", preset="fifo", stages={}, params={})
    bench.cycle()
    bench.live()
    assert told(bench) == {f"{number}.1.0": 2.0}
    bench.executor.sink(LimitsSet(0.0, WorkerId(number, 1, 0), Limits(cpus=2.0), automatic=True))
    bench.cycle()
    assert "limits_set" not in bench.story(number), "nobody asked for it"


def test_who_is_there_is_told_anew_when_its_time_limit_changes(bench: Bench) -> None:
    (one,) = running(bench, 1)
    before = snapshots(bench.scheduler.state, {})
    bench.ask("update", one, time_limit=60.0)
    bench.cycle()
    after = snapshots(bench.scheduler.state, before)
    assert after != before
    assert after[A].jobs[0].job.time_limit == 60.0
    assert before[A].jobs[0].job.time_limit is None
    assert snapshots(bench.scheduler.state, after)[A].jobs[0] is after[A].jobs[0], "what is the same is not made anew"


class SlowPast:
    """A store whose past jobs take a long time to read."""

    def __init__(self) -> None:
        self.reads, self.asked, self.go_on = 0, threading.Event(), threading.Event()

    def last_succeeded(self) -> None:
        self.reads += 1
        self.asked.set()
        assert self.go_on.wait(60)

    def setting(self, name: str, default: Any = None) -> Any:
        return default


def test_that_jobs_have_ended_is_said_without_waiting_for_who_estimates() -> None:
    store = SlowPast()
    work_left = WorkLeft(store)  # type: ignore[arg-type]
    asks = threading.Thread(target=work_left.by_others, args=(job(1), 0.0))
    refreshes = threading.Thread(target=work_left.refresh, daemon=True)
    asks.start()
    assert store.asked.wait(60)
    refreshes.start()
    refreshes.join(60)
    waited = refreshes.is_alive()
    store.go_on.set()
    asks.join()
    assert not waited
    work_left.by_others(job(1), 0.0)
    work_left.by_others(job(1), 0.0)
    assert store.reads == 2, "once more, not each time"


def test_a_slow_machine_delays_nobody(bench: Bench) -> None:
    set_share(bench, "halves")
    go_on = threading.Event()
    Halves.before = staticmethod(lambda node: node.name == "a" and go_on.wait(60))
    one, two = running(bench, 2)
    until(bench, lambda: limits_of(bench, two))
    assert not limits_of(bench, one)
    go_on.set()
    until(bench, lambda: limits_of(bench, one))


def test_a_stage_that_fails_on_one_machine_goes_on_with_the_others(bench: Bench) -> None:
    def fail(node: ShareNode) -> None:
        if node.name == "a":
            raise KeyError("oops")

    set_share(bench, "halves")
    Halves.before = staticmethod(fail)
    one, two = running(bench, 2)
    until(bench, lambda: limits_of(bench, two) and bench.store.setting("policy_fault"))
    assert "share stage halves on node a: KeyError: 'oops'" in bench.store.setting("policy_fault")["error"]
    assert bench.story().count("policy_fault") == 1
    assert not limits_of(bench, one)
    three, four = running(bench, 2)
    until(bench, lambda: limits_of(bench, four))
    assert not limits_of(bench, three), "there it is shared fairly"
    Halves.before = staticmethod(lambda node: None)
    set_share(bench, "halves")
    until(bench, lambda: limits_of(bench, one))
    assert bench.store.setting("policy_fault") is None
