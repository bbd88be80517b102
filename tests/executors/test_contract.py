"""What every executor must do, written against the protocol alone. A new executor adds itself to `EXECUTORS`.

What the workers do has names (`support/deeds.py`); the bench knows how its executor is made to do it, and how to wait.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from schedulearn.core.domain.events import LimitsSet, WorkerExited, WorkerPaused, WorkerStarted
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Executor, Launch
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.process import watcher
from support import deeds
from support.bench import Workbench

FULL = "process, with too many open files to watch them by"
# The fixtures that make them.
EXECUTORS = {"process": "processes", FULL: "processes", "docker": "containers", "simulated": "simulated"}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.docker) if name == "docker" else name for name in EXECUTORS]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    if kind == FULL:

        def full(_: int) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(watcher, "pidfd_open", full)
    workbench: Workbench = request.getfixturevalue(EXECUTORS[kind])
    return workbench


@pytest.fixture
def make(bench: Workbench) -> Callable[[], Executor]:
    """Makes a new executor over the same data each time it is called: the service's next life."""
    return bench.executor


def kinds(bench: Any, launch: Launch) -> list[type]:
    return [type(e) for e in bench.recorder.events if e.worker == launch.worker]


def test_it_has_nodes(make: Any) -> None:
    assert [node.name for node in make().nodes()] == ["here"]


@pytest.mark.parametrize("code", [0, 1, 42])
def test_a_worker_starts_and_exits(make: Any, bench: Any, code: int) -> None:
    launch = bench.doing(deeds.exits(code))
    make().start(launch)
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.exit_code) == (Ending.EXITED, code)
    assert kinds(bench, launch) == [WorkerStarted, WorkerExited]
    first, last = (e.at for e in bench.recorder.events)
    assert first <= last


def test_a_worker_that_cannot_be_started(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.MISSING)
    make().start(launch)
    outcome = bench.ended(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "no-such-program-anywhere" in outcome.detail
    assert kinds(bench, launch) == [WorkerExited]


def test_an_end_that_was_told_stays_true(make: Any, bench: Any) -> None:
    """A scheduler that lost the news, and starts the worker again, hears the same: else it could run unknown to all."""
    executor, launch = make(), bench.doing(deeds.MISSING)
    executor.start(launch)
    bench.ended(launch)
    executor.start(launch)
    assert bench.ended(launch, 2).ending is Ending.NOT_STARTED
    executor.adopt(launch.worker, launch.node)
    assert bench.ended(launch, 3).ending is Ending.NOT_STARTED
    assert WorkerStarted not in kinds(bench, launch)


def test_start_twice_runs_once(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.NOTED)
    executor = make()
    executor.start(launch)
    executor.start(launch)
    bench.started(launch, count=2)
    assert bench.times_run(launch) == 1
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    executor.start(launch)  # even after its end: it is only told again
    bench.ended(launch, count=2)
    assert bench.times_run(launch) == 1


def test_stop_lets_it_end_in_peace(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.OBEYS)
    executor = make()
    executor.start(launch)
    bench.ready(launch)
    executor.stop(launch.worker, launch.node, 30)
    assert bench.ended(launch).exit_code == 7


def test_stop_kills_after_the_grace_period(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.REFUSES)
    executor = make()
    executor.start(launch)
    bench.ready(launch)
    executor.stop(launch.worker, launch.node, 0.1)
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.signal) == (Ending.SIGNALLED, 9)


def test_a_second_stop_may_shorten_the_first(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.REFUSES)
    executor = make()
    executor.start(launch)
    bench.ready(launch)
    executor.stop(launch.worker, launch.node, 1000)
    executor.stop(launch.worker, launch.node, 0)
    assert bench.ended(launch).signal == 9


def test_stop_right_after_start(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.FOREVER)
    executor = make()
    executor.start(launch)
    executor.stop(launch.worker, launch.node, 0)
    assert not bench.ended(launch).ok


def test_stop_of_one_that_was_never_started(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.FOREVER)
    make().stop(launch.worker, launch.node, 0)
    assert bench.ended(launch).ending is Ending.LOST


def test_pause_and_resume(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.TICKS)
    executor = make()
    executor.start(launch)
    bench.until(lambda: bench.ticks(launch))
    executor.pause(launch.worker, launch.node)
    bench.until(lambda: _stands_still(bench, launch), "a paused worker gets nothing done")
    silent = bench.ticks(launch)
    executor.resume(launch.worker, launch.node)
    bench.until(lambda: bench.ticks(launch) > silent, "a resumed worker goes on")
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_a_pause_is_confirmed_when_the_whole_tree_stands_still(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.TREE_TICKS)
    executor = make()
    executor.start(launch)
    executor.pause(launch.worker, launch.node)  # at once: it is confirmed after the start
    bench.recorder.wait(WorkerPaused, launch.worker)
    assert kinds(bench, launch) == [WorkerStarted, WorkerPaused]
    for count in (2, 3):
        executor.resume(launch.worker, launch.node)
        before = bench.ticks(launch)
        bench.until(lambda size=before: bench.ticks(launch) > size, "it goes on")
        executor.pause(launch.worker, launch.node)
        bench.recorder.wait(WorkerPaused, launch.worker, count)
        bench.until(lambda: _stands_still(bench, launch), "nothing comes but what was on its way")
    executor.pause(launch.worker, launch.node)  # it stands still already, and says so again
    bench.recorder.wait(WorkerPaused, launch.worker, 4)
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    assert kinds(bench, launch)[-1] is WorkerExited


def test_the_next_life_is_told_that_a_worker_stands_still(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.SHELL_OBEYS)
    first = make()
    first.start(launch)
    bench.ready(launch)
    first.pause(launch.worker, launch.node)
    bench.recorder.wait(WorkerPaused, launch.worker)
    first.close()
    second = make()
    second.adopt(launch.worker, launch.node)
    second.pause(launch.worker, launch.node)
    bench.recorder.wait(WorkerPaused, launch.worker, 2)
    second.resume(launch.worker, launch.node)
    second.stop(launch.worker, launch.node, 1000)
    assert bench.ended(launch).exit_code == 5


def test_a_pause_of_one_that_has_ended_confirms_nothing(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.exits(0))
    executor = make()
    executor.start(launch)
    bench.ended(launch)
    executor.pause(launch.worker, launch.node)
    executor.adopt(launch.worker, launch.node)  # answered after the pause was
    bench.ended(launch, count=2)
    assert WorkerPaused not in kinds(bench, launch)


def _stands_still(bench: Any, launch: Launch) -> bool:
    """Twenty looks, each longer than the worker's own rhythm, and nothing new."""
    before = bench.ticks(launch)
    for _ in range(20):
        bench.pass_time(0.02)
        if bench.ticks(launch) != before:
            return False
    return True


def test_stop_ends_a_paused_worker(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.FOREVER)
    executor = make()
    executor.start(launch)
    bench.started(launch)
    executor.pause(launch.worker, launch.node)
    executor.stop(launch.worker, launch.node, 1000)
    assert bench.ended(launch).signal == 15


def test_the_next_life_adopts_a_running_worker(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.WAITS)
    first = make()
    first.start(launch)
    bench.started(launch)
    first.close()
    second = make()
    second.adopt(launch.worker, launch.node)
    bench.started(launch, count=2)
    bench.let_go(launch)
    assert bench.ended(launch).exit_code == 5
    second.adopt(launch.worker, launch.node)
    assert bench.ended(launch, count=2).exit_code == 5


def test_adopting_one_that_was_never_started(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.FOREVER)
    make().adopt(launch.worker, launch.node)
    assert bench.ended(launch).ending is Ending.LOST


def test_a_checkpoint_is_known_until_the_job_is_forgotten(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.SAVES)
    executor = make()
    executor.start(launch)
    bench.ready(launch)
    assert not executor.has_checkpoint(JobId(1))
    executor.stop(launch.worker, launch.node, 1000)
    assert bench.ended(launch).ok
    executor.close()
    second = make()
    assert second.has_checkpoint(JobId(1))
    assert not second.has_checkpoint(JobId(2))
    second.forget(JobId(1))
    bench.until(lambda: not second.has_checkpoint(JobId(1)))


def test_what_runs_is_not_forgotten(make: Any, bench: Any) -> None:
    launch, other = bench.doing(deeds.FOREVER), bench.doing(deeds.exits(0), job=11)
    executor = make()
    executor.start(launch)
    executor.start(other)
    bench.started(launch)
    bench.ended(other)
    executor.forget(JobId(1))
    executor.forget(JobId(11))
    bench.until(lambda: bench.jobs_kept() == {"1"})
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_forget_removes_all_of_a_job(make: Any, bench: Any) -> None:
    launch, other = bench.doing(deeds.WRITES), bench.doing(deeds.exits(0), job=11)
    executor = make()
    for one in (launch, other):
        executor.start(one)
        bench.ended(one)
    executor.forget(JobId(1))
    executor.forget(JobId(1))
    bench.until(lambda: bench.jobs_kept() == {"11"})


def test_pause_resume_and_forget_of_the_unknown_do_nothing(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.exits(0))
    executor = make()
    executor.pause(launch.worker, launch.node)
    executor.resume(launch.worker, launch.node)
    executor.regroup(launch.worker, launch.node, Group(1, ()))
    executor.set_batch(launch.worker, launch.node, 64)
    executor.forget(JobId(99))
    executor.start(launch)
    assert bench.ended(launch).ok


def test_a_worker_is_told_of_its_group_until_it_has_to_leave(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.MEMBER, cpu_limit=1.0, group=Group(2, (0, 1)), rank=1)
    first = make()
    first.start(launch)
    bench.until(lambda: bench.group(launch) == Group(2, (0, 1)), "it is told at its start")
    first.regroup(launch.worker, launch.node, Group(3, (1, 4)))
    bench.until(lambda: bench.group(launch) == Group(3, (1, 4)))
    first.regroup(launch.worker, launch.node, Group(2, (0,)))  # old news: it would have to leave
    first.adopt(launch.worker, launch.node)  # answered after that
    bench.started(launch, count=2)
    bench.pass_time(0.2)  # it looks every 0.02 s
    assert bench.group(launch) == Group(3, (1, 4))
    first.close()
    second = make()
    second.adopt(launch.worker, launch.node)
    second.regroup(launch.worker, launch.node, Group(3, (1, 4)))
    second.regroup(launch.worker, launch.node, Group(5, (1,)))
    bench.until(lambda: bench.group(launch) == Group(5, (1,)))
    second.regroup(launch.worker, launch.node, Group(6, (4,)))
    assert bench.ended(launch).ok
    second.regroup(launch.worker, launch.node, Group(7, (1,)))  # too late
    second.adopt(launch.worker, launch.node)
    assert bench.ended(launch, count=2).ok
    assert kinds(bench, launch).count(WorkerExited) == 2


def test_what_a_worker_uses_is_known_while_it_runs(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.BUSY)
    executor = make()
    assert executor.usage(launch.worker, launch.node) is None
    executor.start(launch)
    bench.ready(launch)
    first = bench.until(lambda: executor.usage(launch.worker, launch.node))
    bench.until(lambda: (executor.usage(launch.worker, launch.node) or first).cpu_seconds > first.cpu_seconds)
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
    assert executor.usage(launch.worker, launch.node) is None


def test_limits_are_changed_or_it_is_said_why_not(make: Any, bench: Any) -> None:
    launch = bench.doing(deeds.FOREVER, cpu_limit=1.0)
    executor = make()
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.3))  # it does not run yet: nothing happens
    executor.start(launch)
    bench.started(launch)
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.6))
    event = bench.recorder.wait(LimitsSet, launch.worker)
    assert event.limits.cpus == 0.6
    usage = bench.until(lambda: executor.usage(launch.worker, launch.node))
    assert bool(event.problem) == (usage.limits.cpus != 0.6)
    assert not event.automatic
    executor.set_limits(launch.worker, launch.node, Limits(cpus=0.5), automatic=True)
    assert bench.recorder.wait(LimitsSet, launch.worker, 2).automatic, "nobody asked for that one"
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
