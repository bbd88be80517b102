"""Numbers found in output, and reports that a job could not deliver."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import StoreError
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.spec import Metric
from schedulearn.executors.common.logwriter import LogWriter
from schedulearn.service.common.config import DataFolder
from schedulearn.service.progress import progress
from schedulearn.service.progress.output import usual_pattern
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import Found, Store
from support.clock import HandClock
from support.scheduling import Bench

ONE = JobId(1)
WORKER = WorkerId(ONE, 1, 0)


class Run:
    """One running worker whose output the test writes."""

    def __init__(self, bench: Bench, cap: int = 1 << 20, **metric: Any) -> None:
        self.bench, self.store = bench, bench.store
        self.metric = Metric(**metric)
        bench.running(metric=self.metric)
        self.folder: Path = bench.worker_folder(WORKER)
        (self.folder / "log").mkdir(parents=True)
        self.log = LogWriter(str(self.folder / "log"), cap)
        self.begin()

    def begin(self) -> None:
        """A new watcher, as after a restart of the service."""
        self.watcher = ProgressWatcher(self.store, lambda _: self.folder, self.bench.clock)
        self.watcher.watch(WORKER, self.metric)

    def look(self) -> None:
        self.watcher.look()

    def prints(self, *data: bytes) -> None:
        for some in data:
            self.log.write(some)
            self.look()

    @property
    def curve(self) -> list[tuple[int, float]]:
        return [(point.step, point.value) for point in self.store.curve(ONE, self.metric.name)]


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock)


@pytest.fixture
def run(bench: Bench) -> Run:
    return Run(bench)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("loss: 0.31", 0.31),
        ("loss=0.31", 0.31),
        ("Loss 0.31", 0.31),
        ("LOSS = 1e-3", 0.001),
        ("epoch 3, loss: 0.31, acc: 0.9", 0.31),
        ("[loss: .5]", 0.5),
        ("loss: -2.5E+1", -25.0),
        ("the final loss: 0.31.", 0.31),
        ("loss: inf", math.inf),
        ("train_loss: 0.31", None),
        ("train-loss: 0.31", None),
        ("losses: 0.31", None),
        ("loss: 1.2.3", None),
        ("loss: 12abc", None),
        ("loss is low", None),
    ],
)
def test_the_usual_pattern(line: str, value: float | None) -> None:
    found = usual_pattern("loss").search(line)
    assert (float(found[1]) if found else None) == value


def test_a_metric_of_another_name(bench: Bench) -> None:
    run = Run(bench, name="val_loss")
    run.prints(b"loss: 1.0 val_loss: 2.0\n")
    assert run.curve == [(1, 2.0)]


def test_nan_is_a_value(run: Run) -> None:
    run.prints(b"loss: 1.0\nloss: nan\n")
    assert [math.isnan(value) for _, value in run.curve] == [False, True]


def test_steps_are_read_from_the_line_or_else_counted(run: Run) -> None:
    run.prints(b"loss: 3\nloss: 2\n", b"step 100 loss: 1\nloss: 0.5\nEpoch [7/20] loss: 0.25\n")
    assert run.curve == [(1, 3.0), (2, 2.0), (100, 1.0), (101, 0.5), (7, 0.25)]


def test_the_latest_state_of_a_progress_bar_counts(run: Run) -> None:
    run.prints(b"\rloss: 3\rloss: 2\rloss: 1\nloss: 0.5\r\n")
    assert [value for _, value in run.curve] == [1.0, 0.5]


def test_a_progress_bar_shows_a_value_while_its_line_grows(run: Run) -> None:
    """The state that is being written is not whole until the next one begins."""
    run.prints(b"\rloss: 3\rloss: 2", b"\rloss: 1", b"00\b\b\b\b\b\b\b\b\b\rloss:", b" 50\n")
    assert [value for _, value in run.curve] == [3.0, 2.0, 100.0, 50.0]


def test_a_bar_is_read_on_after_a_restart(run: Run) -> None:
    bar = b"\r%d/10 [=====>....] - ETA: 1s - loss: 0.%d\x08\x08\x08"
    run.prints(b"Epoch 1/2\n", bar % (9, 9), b"\nEpoch 2/2\n", bar % (1, 8), bar % (2, 7))
    run.begin()
    run.prints(bar % (3, 6), bar % (4, 5))
    assert run.curve == [(9, 0.9), (11, 0.8), (12, 0.7), (13, 0.6), (14, 0.5)]


def test_a_bar_without_an_end_takes_no_memory(run: Run) -> None:
    for number in range(1, 50):
        run.prints(b"\r%d/100 [00:00<00:00, loss=0.5] %s" % (number, b"=" * 200))
    assert len(run.watcher._watched[WORKER].rest) < 1000
    assert run.curve[-1] == (48, 0.5)


def test_bytes_that_are_no_text(run: Run) -> None:
    run.prints(b"\xff\xfe\x80\n\xc3loss: 0.25\xff\n")
    assert run.curve == [(1, 0.25)]


def test_a_pattern_of_the_users_own(bench: Bench) -> None:
    run = Run(bench, name="score", pattern=r"value is (\S+)")
    run.prints(b"the value is 0.75\nthe value is unknown\nscore: 9\n")
    assert run.curve == [(1, 0.75)]


def test_a_line_that_comes_in_two_pieces_counts_once(run: Run) -> None:
    run.prints(b"loss: 0.", b"25", b"\nloss: 0.5\n")
    assert run.curve == [(1, 0.25), (2, 0.5)]


def test_a_last_line_without_its_end_counts_when_the_worker_has_ended(run: Run) -> None:
    run.prints(b"loss: 1\nloss: 0.5")
    assert run.curve == [(1, 1.0)]
    run.watcher.finish(WORKER)
    assert run.curve == [(1, 1.0), (2, 0.5)]


def test_after_a_restart_nothing_is_stored_twice_and_nothing_is_missing(run: Run) -> None:
    run.prints(b"loss: 3\nloss: 2\nloss: ")
    run.begin()
    run.prints(b"1\n")
    run.begin()
    run.look()
    assert run.curve == [(1, 3.0), (2, 2.0), (3, 1.0)]


def test_read_again_from_the_beginning_nothing_is_stored_twice(run: Run) -> None:
    """As after a crash between storing points and storing how far was read."""
    run.prints(b"loss: 3\nloss: 2\n")
    run.store.add_found([Found(WORKER, 0)])
    run.begin()
    run.look()
    assert [value for _, value in run.curve] == [3.0, 2.0]


def test_output_that_comes_faster_than_it_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BEHIND", 4096)
    run = Run(bench)
    run.prints(b"loss: 9\n" + b"x" * 100_000 + b"\nloss: 1\n")
    assert run.curve == [(1, 1.0)]


def test_output_is_read_on_when_its_beginning_was_removed(bench: Bench) -> None:
    """The cap on output throws away the oldest; offsets go on."""
    run = Run(bench, cap=8 * 1024)
    run.prints(b"loss: 3\n")
    for _ in range(40):
        run.prints(b"y" * 1023 + b"\n")
    run.prints(b"loss: 2\n", b"loss: 1\n")
    assert [value for _, value in run.curve] == [3.0, 2.0, 1.0]


def test_an_endless_line_takes_no_memory(run: Run) -> None:
    run.prints(*[b"z" * 100_000] * 3)
    assert len(run.watcher._watched[WORKER].rest) < 10_000
    run.prints(b"\nloss: 1\n")
    assert run.curve == [(1, 1.0)]


def test_only_the_first_worker_is_read(bench: Bench) -> None:
    watcher = ProgressWatcher(bench.store, lambda _: bench.folder.root, bench.clock)
    watcher.watch(WorkerId(ONE, 1, 1), Metric())
    assert watcher._watched == {}


def test_reports_go_before_what_was_read_from_the_output(run: Run) -> None:
    run.prints(b"loss: 3\n")
    spool(run, report(1, 10, loss=0.5))
    run.watcher.finish(WORKER)
    run.begin()
    run.prints(b"loss: 2\n")
    assert run.curve == [(10, 0.5)]


# --- the spool


def report(seq: int, step: int, **values: float) -> bytes:
    return json.dumps({"seq": seq, "at": 1_700_000_000.0 + seq, "step": step, "values": values}).encode()


def spool(run: Run, *lines: bytes) -> None:
    (run.folder / "spool.jsonl").write_bytes(b"\n".join(lines))


def test_what_a_job_left_in_its_spool_is_picked_up_at_its_end(run: Run) -> None:
    spool(run, report(2, 20, loss=0.2, acc=0.9), report(1, 10, loss=0.3))
    run.watcher.finish(WORKER)
    assert run.curve == [(10, 0.3), (20, 0.2)]
    assert {series.name for series in run.store.series_of(ONE)} == {"loss", "acc"}


def test_a_spool_that_was_delivered_already_is_not_stored_twice(run: Run) -> None:
    spool(run, report(1, 10, loss=0.3))
    run.watcher.finish(WORKER)
    spool(run, report(1, 10, loss=0.3), report(2, 20, loss=0.2))
    run.watcher.finish(WORKER)
    assert run.curve == [(10, 0.3), (20, 0.2)]


@pytest.mark.parametrize(
    "rubbish",
    [
        report(2, 20, loss=0.2)[:-9],
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"seq": 2}',
        b'{"seq": 2, "at": 1, "step": Infinity, "values": {"loss": 1}}',
        b'{"seq": 2, "at": 1, "step": 1, "values": {"loss": "low"}}',
        b'{"seq": 2, "at": 1, "step": 1, "values": [1]}',
    ],
)
def test_a_damaged_line_of_a_spool_costs_only_itself(run: Run, rubbish: bytes) -> None:
    spool(run, report(1, 10, loss=0.3), rubbish, report(3, 30, loss=0.1))
    run.watcher.finish(WORKER)
    assert run.curve == [(10, 0.3), (30, 0.1)]


@contextmanager
def away(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The database does not answer."""

    def refuse(*_: Any) -> None:
        raise StoreError("the database is away")

    with monkeypatch.context() as patch:
        for name in ("add_found", "add_points"):
            patch.setattr(store, name, refuse)
        yield


def test_points_wait_for_a_store_that_is_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.prints(b"step 1 loss 4\n")
    with away(run.store, monkeypatch):
        run.prints(b"step 2 loss 3\n", b"step 3 loss 2\n")
    assert run.curve == [(1, 4.0)]
    run.look()
    assert run.curve == [(1, 4.0), (2, 3.0), (3, 2.0)]


def test_points_found_just_before_the_store_went_away_are_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keep, refused = run.store.add_found, []

    def refuse_points(found: Any) -> None:
        if any(one.points for one in found):
            refused.append(found)
            raise StoreError("the database is away")
        keep(found)

    with monkeypatch.context() as patch:
        patch.setattr(run.store, "add_found", refuse_points)
        run.prints(b"step 1 loss 4\n")
    assert refused
    run.look()
    assert run.curve == [(1, 4.0)]


def test_what_a_worker_said_last_waits_for_the_store(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    spool(run, report(1, 9, accuracy=0.5))
    run.log.write(b"step 1 loss 4\n")
    with away(run.store, monkeypatch):
        run.watcher.finish(WORKER)
    run.look()
    assert run.curve == [(1, 4.0)]
    assert [point.value for point in run.store.curve(ONE, "accuracy")] == [0.5]


def test_a_job_that_was_deleted_meanwhile_disturbs_nobody(run: Run) -> None:
    run.log.write(b"loss: 1\n")
    spool(run, report(1, 10, loss=0.3))
    run.bench.ask("delete", ONE)
    run.bench.cycle()
    run.bench.exited("1.1.0")
    run.bench.cycle()
    assert run.store.job(ONE) is None
    run.watcher.finish(WORKER)


def test_the_thread_reads_by_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.waiting import wait_until

    monkeypatch.setattr(progress, "_EVERY", 0.01)
    run.watcher.start()
    run.log.write(b"loss: 1\n")
    wait_until(lambda: run.curve == [(1, 1.0)])
    run.watcher.close()


def test_reports_that_the_job_dropped_are_in_its_story(run: Run) -> None:
    for _ in range(2):  # as after a kill between the two
        spool(run, b'{"dropped": 7}', report(1, 10, loss=0.3), b'{"dropped": 1234}', b'{"dropped": 2')
        run.watcher.finish(WORKER)
    told = [e.event.cause for e in run.store.events_after(0, ONE) if e.event.kind == "reports_dropped"]
    assert told == ["1,234 reports were dropped: worker 1.1.0 made more than could be delivered"]
    assert run.curve == [(10, 0.3)]


@pytest.mark.parametrize("lie", [b'{"dropped": -1}', b'{"dropped": 1e99}', b'{"dropped": ' + b"9" * 5000 + b"}"])
def test_a_number_that_is_none_is_not_told(run: Run, lie: bytes) -> None:
    spool(run, lie)
    run.watcher.finish(WORKER)
    assert not [e for e in run.store.events_after(0, ONE) if e.event.kind == "reports_dropped"]
