"""The small parts: locks, the scheduler's lease, the clock, the nudge, the explainer."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import NotFound, RoleTaken
from schedulearn.core.domain.ids import JobId
from schedulearn.service.common import clock as clock_module
from schedulearn.service.common.clock import SteadyClock
from schedulearn.service.common.config import DataFolder, Options
from schedulearn.service.common.roles import RENEW_EVERY, TTL, RoleLock, SchedulerLease
from schedulearn.service.gateway import explainer as explainer_module
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.loop.nudge import NudgeListener, nudge
from schedulearn.service.runtime import Runtime
from schedulearn.store import Cycle, Store
from support.builders import BROKEN
from support.clock import HandClock
from support.scheduling import Bench
from support.waiting import wait_until

# --- locks


def test_a_role_is_played_by_one_process_and_the_other_is_told_who(folder: DataFolder) -> None:
    with RoleLock(folder, "scheduler"):
        taken = rf"pid {os.getpid()}\) already runs the scheduler"
        with pytest.raises(RoleTaken, match=taken) as refused, RoleLock(folder, "scheduler"):
            pass
        assert f"schedulearn down --data {folder.root}" in str(refused.value), "and what to do about it"
        with RoleLock(folder, "api"):
            pass
    with RoleLock(folder, "scheduler"):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(folder: DataFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from schedulearn.service.common.config import DataFolder;"
        "from schedulearn.service.common.roles import RoleLock;"
        "lock = RoleLock(DataFolder(Path(sys.argv[1])), 'api'); lock.__enter__();"
        "print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(folder.root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RoleTaken, match=f"pid {holder.pid}"), RoleLock(folder, "api"):
            pass
        holder.kill()
        holder.wait()
    with RoleLock(folder, "api"):
        pass


# --- the scheduler's lease


def lease(store: Store, clock: HandClock) -> SchedulerLease:
    return SchedulerLease(store, clock, Path("data"))


def test_a_scheduler_elsewhere_is_waited_for_until_its_lease_is_over(store: Store, clock: HandClock) -> None:
    lease(store, clock).take(shared_database=True)
    with pytest.raises(RoleTaken, match="held by"):
        lease(store, clock).take(shared_database=True)
    clock.pass_time(TTL + 1)
    lease(store, clock).take(shared_database=True)


def test_on_a_database_of_its_own_a_dead_scheduler_is_replaced_at_once(store: Store, clock: HandClock) -> None:
    old, new = lease(store, clock), lease(store, clock)
    old.take(shared_database=False)
    new.take(shared_database=False)
    assert new.fence > old.fence
    with pytest.raises(RoleTaken):
        store.save_cycle(Cycle(old.fence))
    store.save_cycle(Cycle(new.fence))
    clock.pass_time(RENEW_EVERY)
    with pytest.raises(RoleTaken):
        old.renew_if_due()
    new.renew_if_due()
    old.release()
    assert store.role_seen("scheduler") == clock.now(), "the old one has nothing to give back"
    new.release()
    assert store.role_seen("scheduler") is None


# --- the clock


class Machine:
    """The machine's two clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = 1_000_000.0, 5_000.0
        monkeypatch.setattr(clock_module.time, "time", lambda: self.wall)
        monkeypatch.setattr(clock_module, "steady_time", lambda: self.steady)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.mark.parametrize("jump", [-86400.0, -3.0, 3.0, 86400.0])
def test_a_clock_that_is_set_does_not_make_time_jump(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = SteadyClock()
    machine.pass_time(10.0)
    before = clock.now()
    assert before == 1_000_010.0
    machine.wall += jump
    assert clock.now() == before
    machine.pass_time(10.0)
    assert clock.now() - before == pytest.approx(10.0, abs=0.5)


def test_it_drifts_to_the_wall_clock_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = SteadyClock()
    machine.wall -= 10.0
    times = []
    for _ in range(300):
        machine.pass_time(1.0)
        times.append(clock.now())
    assert times == sorted(times), "time never goes back"
    assert times[-1] == machine.wall


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_while_the_service_is_away(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, file = Machine(monkeypatch), tmp_path / "clock.json"
    before = clock_module.resumed(file)
    clock_module.keep(before, file)
    at = before.now()
    machine.pass_time(10.0)
    machine.wall += jump
    assert clock_module.resumed(file).now() == at + 10.0
    monkeypatch.setattr(clock_module, "boot_id", lambda: "another boot")
    assert clock_module.resumed(file).now() == machine.wall, "a machine that began anew has nothing else to go by"
    file.write_text("{")
    assert clock_module.resumed(file).now() == machine.wall


def test_threads_that_ask_at_once_do_not_count_time_twice() -> None:
    clock = SteadyClock()
    began = time.time()

    def ask() -> None:
        for _ in range(5000):
            clock.now()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() - began <= (time.time() - began) * 1.06 + 0.001


# --- the nudge


@contextmanager
def listener(path: Path, wake: threading.Event) -> Iterator[NudgeListener]:
    listening = NudgeListener(path, wake.set)
    listening.start()
    try:
        yield listening
    finally:
        listening.close()


def test_a_nudge_wakes_the_scheduler(tmp_path: Path) -> None:
    woken = threading.Event()
    with listener(tmp_path / "nudge.sock", woken):
        nudge(tmp_path / "nudge.sock")
        assert woken.wait(60)
        assert (tmp_path / "nudge.sock").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "nudge.sock").exists()


def test_the_socket_of_a_dead_scheduler_is_in_nobodys_way(tmp_path: Path) -> None:
    woken = threading.Event()
    (tmp_path / "nudge.sock").touch()
    with listener(tmp_path / "nudge.sock", woken):
        nudge(tmp_path / "nudge.sock")
        assert woken.wait(60)


def test_without_a_scheduler_a_nudge_is_lost_quietly(tmp_path: Path) -> None:
    nudge(tmp_path / "nudge.sock")


def test_a_path_too_long_for_a_socket_only_means_polling(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "nudge.sock"
    deep.parent.mkdir()
    with listener(deep, threading.Event()):
        assert not deep.exists()
        nudge(deep)


# --- explain


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


@pytest.fixture
def explainer(store: Store, clock: HandClock) -> Explainer:
    return Explainer(store, clock)


def test_why_a_job_waits_where_it_stands_and_when_it_starts(bench: Bench, explainer: Explainer) -> None:
    bench.running(cpus=2, time_limit=600.0)
    second, third = bench.submit(cpus=2), bench.submit(cpus=2)
    bench.cycle(60.0)
    first = explainer.explain(second)
    assert "needs 2 cores on one node; the most free on one node is 0 cores" in first.text
    assert first.position == 1
    assert first.estimate
    assert first.estimate.expected == pytest.approx(540.0)
    assert explainer.explain(third).position == 2


def test_a_job_whose_checkpoint_was_seen_may_be_resized_and_is_told_so(bench: Bench) -> None:
    """The store does not say so: the API looks for itself, now and then."""
    bench.ask("policy", preset="elastic-fifo", stages={}, params={})
    job = bench.submit(cpus=1, workers=(1, 1, 2))
    bench.cycle()
    for rank in (0, 1):
        bench.executor.started(f"{job}.1.{rank}", bench.clock.now())
    bench.cycle()
    saved: set[JobId] = set()
    explainer = Explainer(bench.store, bench.clock, saved.__contains__)
    assert "it may not be interrupted before a checkpoint of it was seen" in explainer.explain(job).size
    saved.add(job)
    bench.clock.pass_time(60.0)
    assert (
        "all that it can use; one fewer would make it 48 % slower (assumed, not measured yet)"
        in explainer.explain(job).size
    )


def test_a_look_ahead_over_a_long_queue_serves_for_a_moment(
    bench: Bench, explainer: Explainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    real = explainer_module.forecast_starts

    def counted(*words: Any) -> Any:
        looks.append(1)
        return real(*words)

    monkeypatch.setattr(explainer_module, "forecast_starts", counted)
    monkeypatch.setattr(explainer_module, "_LONG", 1)
    bench.running(cpus=2)
    waiting = [bench.submit(cpus=2) for _ in range(3)]
    bench.cycle()
    assert [explainer.explain(job).position for job in waiting] == [1, 2, 3]
    assert len(looks) == 1
    bench.submit(cpus=2, priority=90)
    bench.cycle()
    assert explainer.explain(waiting[0]).position == 2, "its place is always the present one"
    assert len(looks) == 1
    assert explainer.explain(bench.submit(cpus=2)).position == 5
    assert len(looks) == 2, "of a new job nothing is known before"
    bench.cycle(explainer_module._SERVES)
    explainer.explain(waiting[0])
    assert len(looks) == 3


def test_the_head_of_the_queue_comes_first_then_who_waits_for_something_else(
    bench: Bench, explainer: Explainer
) -> None:
    bench.running(cpus=2)
    second, first = bench.submit(cpus=2), bench.submit(cpus=2, priority=90)
    after = bench.submit(cpus=2, depends_on=(second,))
    bench.cycle()
    waiting = explainer.waiting(10)
    assert [job for job, _ in waiting] == [first, second, after]
    assert [why.position for _, why in waiting] == [1, 2, None]
    assert waiting[2][1].stage == "dependencies"
    assert explainer.waiting(1) == waiting[:1]


def test_it_sees_what_has_happened_since(bench: Bench, explainer: Explainer) -> None:
    job = bench.running()
    assert explainer.explain(job).text.startswith("It has run for")
    bench.exited("1.1.0")
    bench.cycle()
    assert explainer.explain(job).text.startswith("It ran for ")


def test_back_off_and_what_follows_it(bench: Bench, explainer: Explainer) -> None:
    """When the back-off is over nothing happens that the store would know of, but the answer is another one."""
    job = bench.running(cpus=2, max_restarts=1)
    bench.submit(cpus=2, priority=90)
    bench.exited("1.1.0", BROKEN)
    bench.cycle()
    assert "restart 1 of 1" in explainer.explain(job).text
    bench.cycle(60.0)
    assert "needs 2 cores" in explainer.explain(job).text
    assert explainer.explain(job).position == 1


def test_one_that_follows_the_store_says_what_a_new_one_would(bench: Bench, explainer: Explainer) -> None:
    """Whatever happens: the jobs that it happened to, and those who waited for them, are seen anew."""

    def start(name: str) -> Callable[[], object]:
        return lambda: (bench.executor.started(name, bench.clock.now()), bench.cycle(1.0))

    def end(name: str) -> Callable[[], object]:
        return lambda: (bench.exited(name), bench.cycle(5.0))

    def ask(kind: str, job: int | None = None, **data: object) -> Callable[[], object]:
        return lambda: (bench.ask(kind, JobId(job) if job else None, **data), bench.cycle(1.0))

    def submit(**more: Any) -> Callable[[], object]:
        return lambda: (bench.submit(**more), bench.cycle(1.0))

    steps = [
        submit(cpus=2, time_limit=600.0),
        start("1.1.0"),
        submit(cpus=1.5),
        submit(cpus=1.25, priority=60),
        submit(cpus=1, depends_on=(JobId(2),)),
        submit(cpus=1, depends_on=(JobId(3),)),
        ask("pause", 3),
        ask("cancel", 2),
        ask("delete", 2),
        ask("resume", 3),
        end("1.1.0"),
        start("3.1.0"),
        submit(cpus=2),
        submit(cpus=0.5),
        ask("policy", preset="srtf", stages={}, params={}),
        submit(cpus=2),
        end("3.1.0"),
        ask("policy", preset="tiresias", stages={}, params={}),
        submit(cpus=2),
    ]
    for number, step in enumerate(steps):
        step()
        rows, _ = bench.store.list_jobs(limit=100)
        fresh = Explainer(bench.store, bench.clock)
        assert explainer.waiting(10) == fresh.waiting(10), number
        for row in rows:
            assert explainer.explain(row.job.id) == fresh.explain(row.job.id), (number, row.job.id)


def test_a_job_that_is_not_there(explainer: Explainer) -> None:
    with pytest.raises(NotFound):
        explainer.explain(JobId(1))


def test_a_policy_that_has_gone_does_not_break_it(bench: Bench, explainer: Explainer) -> None:
    bench.store.set_setting("policy", {"preset": "gone"})
    job = bench.submit()
    assert explainer.explain(job).text


# --- the first start


def test_the_first_start_makes_an_administrator_and_tells_the_command_line(tmp_path: Path) -> None:
    with Runtime(Options(tmp_path / "new")) as runtime:
        assert runtime.first_token
        file = runtime.folder.client_file
        assert runtime.first_token in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
    with Runtime(Options(tmp_path / "new")) as runtime:
        assert runtime.first_token is None


@pytest.mark.parametrize(("told", "given"), [("", "http://127.0.0.1:7311"), ("http://lab:80", "http://lab:80")])
def test_jobs_may_be_given_another_address_than_the_command_line(tmp_path: Path, told: str, given: str) -> None:
    with Runtime(Options(tmp_path)) as runtime:
        runtime.publish("http://127.0.0.1:7311", told)
        assert runtime.store.setting("url", "") == given
        assert json.loads(runtime.folder.client_file.read_text())["url"] == "http://127.0.0.1:7311"


def test_killed_at_its_first_start_it_locks_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("add_user", "add_token"):
        with monkeypatch.context() as patch:
            patch.setattr(Store, step, killed)
            with pytest.raises(KeyboardInterrupt), Runtime(Options(tmp_path / "new")):
                pass
    with Runtime(Options(tmp_path / "new")) as runtime:
        assert runtime.first_token
        assert runtime.first_token in runtime.folder.client_file.read_text()


@pytest.mark.parametrize("damage", ["", "{", "[]", "\0"])
def test_a_damaged_client_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    options = Options(tmp_path / "data")
    with Runtime(options) as runtime:
        first = runtime.first_token
    options.folder.client_file.write_text(damage)
    with Runtime(options) as runtime:
        assert runtime.first_token not in (None, first)
        assert json.loads(options.folder.client_file.read_text())["token"] == runtime.first_token
    with Runtime(options) as runtime:
        assert runtime.first_token is None


def test_two_processes_that_start_at_once_make_one_administrator(tmp_path: Path) -> None:
    tokens: list[str | None] = []
    ready = threading.Barrier(2)
    opened = ExitStack()

    def start(role: str) -> None:
        ready.wait()
        runtime = opened.enter_context(Runtime(Options(tmp_path / "new", roles=frozenset({role}))))
        runtime.publish("http://127.0.0.1:1")
        tokens.append(runtime.first_token)

    threads = [threading.Thread(target=start, args=(role,)) for role in ("api", "scheduler")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opened:
        wait_until(lambda: len(tokens) == 2)
        (token,) = filter(None, tokens)
        assert token in (tmp_path / "new" / "client.json").read_text()
