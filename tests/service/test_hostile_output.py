"""Whatever a job prints, and whatever pattern it asks for: others and the service go on."""

from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import StoreAway
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.spec import Metric
from schedulearn.executors.common.logwriter import LogWriter
from schedulearn.service.common.config import DataFolder
from schedulearn.service.progress import progress
from schedulearn.service.progress.output import Reader
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import GIVEN_UP, Store
from support.bounded import run_bounded
from support.builders import node
from support.clock import HandClock
from support.scheduling import Bench

# Hundreds of times as long as a line that is looked at: what grows with the square of that would need hours.
SLOW = r"""
from schedulearn.dashboard.common.watch import plain
from schedulearn.core.domain import units
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.spec import Metric
from schedulearn.core.estimate.features import numbers_in
from schedulearn.executors.common.launching import _under_torchrun
from schedulearn.service.progress import progress
from schedulearn.service.progress.output import Reader, clean
from schedulearn.service.progress.tags import likeness

runs = ["a", "1", " ", "-", "=", "1/1 ", "epoch 1 ", "loss ", "loss 1", "\x1b[0 ", "\r", "\x08", "a.", "a= "]
after = [("1", " "), ("loss=1", "1"), ("loss ", " "), ("epoch 1/", "1"), ("epoch 1 (", " "), ("Epoch 1/", "1"),
         ("1/", "-"), ("1/1 ", " "), ("a=", "a"), ("python -u ", "-u "), ("1.", "1"), ("a", " ")]
texts = [head + run * (200_000 // len(run)) + "!" for head, run in [*(("", run) for run in runs), *after]]
patterns = ["a*a*a*a*a*a*(b)", "(?:a+)+(b)"]
metrics = [Metric(), Metric("a"), *(Metric(pattern=pattern) for pattern in patterns)]
for text in texts:
    plain(text)
    numbers_in(["train.py", text])
    _under_torchrun(text)
    likeness("loss", text)
    clean(text.encode())
    for _ in progress._REWRITES.finditer(text.encode()): pass
    for parse in (units.parse_size, units.parse_duration, units.parse_range):
        try: parse(text, "field")
        except InvalidSpec: pass
    for metric in metrics:
        Reader(metric, 0, True).read(text, True)
print("done")
"""

ONE, TWO = JobId(1), JobId(2)


@pytest.mark.slow
def test_no_text_makes_an_expression_slow() -> None:
    assert run_bounded(SLOW, cpu=100) == "done\n"


class Jobs:
    """Jobs that run beside each other, whose output the test writes."""

    def __init__(self, bench: Bench, *metrics: Metric) -> None:
        self.bench, self.store, self.metrics = bench, bench.store, metrics
        self.workers = [WorkerId(bench.running(metric=metric), 1, 0) for metric in metrics]
        for worker in self.workers:
            (self.folder(worker) / "log").mkdir(parents=True)
        self.logs = [LogWriter(str(self.folder(worker) / "log"), 1 << 24) for worker in self.workers]
        self.begin()

    def folder(self, worker: WorkerId) -> Path:
        return Path(self.bench.worker_folder(worker))

    def begin(self) -> None:
        """As after a restart of the service."""
        self.watcher = ProgressWatcher(self.store, self.folder, self.bench.clock)
        for worker, metric in zip(self.workers, self.metrics, strict=True):
            self.watcher.watch(worker, metric)

    def print(self, text: bytes) -> None:
        for log in self.logs:
            log.write(text)

    def values(self, job: JobId, name: str = "loss") -> list[float]:
        return [point.value for point in self.store.curve(job, name)]

    def said(self, job: JobId) -> list[str]:
        return [one.event.cause for one in self.store.events_after(0, job) if one.event.kind == "output_unread"]


@pytest.fixture
def bench(store: Store, folder: DataFolder, clock: HandClock) -> Bench:
    return Bench(store, folder, clock, node("a", cpus=8))


@pytest.mark.parametrize("pattern", [r"(?x)(?:a+) +(b)", r"(?<=loss )(\d)", r"(\d)\1", "(", "(a)(b)"])
def test_a_pattern_from_before_that_cannot_be_used_is_given_up(bench: Bench, pattern: str) -> None:
    jobs = Jobs(bench, Metric(pattern=pattern), Metric())
    jobs.print(b"a" * 500 + b"\nloss 1\n")
    jobs.watcher.look()
    assert (jobs.values(ONE), jobs.values(TWO)) == ([], [1.0]), "the other is read"
    assert len(jobs.said(ONE)) == 1
    assert jobs.said(TWO) == []
    jobs.begin()
    jobs.watcher.finish(jobs.workers[0])
    assert len(jobs.said(ONE)) == 1, "it is said once"


def test_a_job_whose_matching_fails_is_given_up_and_not_the_service(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Reader, text: str, ended: bool) -> Any:
        if self._name == "bad":
            raise ZeroDivisionError("what a pity")
        return real(self, text, ended)

    real = Reader.read
    monkeypatch.setattr(Reader, "read", fails)
    jobs = Jobs(bench, Metric("bad"), Metric())
    jobs.print(b"bad 1\nloss 1\n")
    jobs.watcher.look()
    assert jobs.said(ONE) == ["its output is not searched for its metric any more: what a pity"]
    assert jobs.values(TWO) == [1.0]
    assert jobs.store.output_place(jobs.workers[0]).offset == GIVEN_UP
    monkeypatch.setattr(Reader, "read", real)
    jobs.begin()
    jobs.print(b"bad 2\nloss 2\n")
    jobs.watcher.look()
    assert (jobs.values(ONE, "bad"), jobs.values(TWO)) == ([], [1.0, 2.0]), "nor does the next service try again"


class Died(BaseException):
    """The service, over a line."""


def dies(self: Reader, text: str, ended: bool) -> Any:
    raise Died


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_what_the_service_died_over_is_matched_again_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, deaths: int, at_the_end: bool
) -> None:
    jobs = Jobs(bench, Metric())
    jobs.print(b"loss 3\n")
    jobs.watcher.look()
    jobs.print(b"loss 2\n")
    with monkeypatch.context() as patched:
        patched.setattr(Reader, "read", dies)
        for _ in range(deaths):
            with pytest.raises(Died):
                jobs.watcher.finish(jobs.workers[0]) if at_the_end else jobs.watcher.look()
            jobs.begin()
    jobs.print(b"loss 1\n")
    jobs.watcher.finish(jobs.workers[0])
    assert jobs.values(ONE) == ([3.0, 2.0, 1.0] if deaths < 3 else [3.0, 1.0])
    skipped = [e.event.cause for e in jobs.store.events_after(0, ONE) if e.event.kind == "output_skipped"]
    assert len(skipped) == (deaths == 3)


def test_what_is_left_out_is_told_although_the_service_dies_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(kind: str) -> int:
        return sum(stored.event.kind == kind for stored in jobs.store.events_after(0, ONE))

    def dies_telling(*_: Any) -> None:
        raise Died

    jobs = Jobs(bench, Metric())
    jobs.store.claim_output(jobs.workers * progress._TRIES)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "note_once", dies_telling)
        with pytest.raises(Died):
            jobs.begin()
    jobs.begin()
    assert told("output_skipped") == 1
    jobs.print(b"loss 1\n")
    monkeypatch.setattr(Reader, "read", lambda *_: 1 / 0)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "note_once", dies_telling)
        with pytest.raises(Died):
            jobs.watcher.look()
    jobs.begin()
    jobs.watcher.look()
    assert told("output_unread") == 1


def test_looks_that_end_do_not_count(bench: Bench) -> None:
    """Also when they find nothing, and when the service is started again in between."""
    jobs = Jobs(bench, Metric())
    for number in range(8):
        jobs.print(b"nothing, " if number % 2 else b"loss %d\n" % number)
        jobs.watcher.look()
        assert jobs.store.output_place(jobs.workers[0]).tries == 0
        jobs.begin()
    assert jobs.values(ONE) == [0.0, 2.0, 4.0, 6.0]


def test_a_store_that_takes_no_points_does_not_count_as_a_death(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise StoreAway("it is full")

    jobs = Jobs(bench, Metric())
    with monkeypatch.context() as patched:
        patched.setattr(Store, "add_found", away)
        for number in range(5):
            jobs.print(b"loss %d\n" % number)
            jobs.watcher.look()
    assert jobs.store.output_place(jobs.workers[0]).tries == 1
    jobs.begin()
    jobs.watcher.look()
    assert jobs.values(ONE) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_flood_is_read_bit_by_bit_and_others_have_their_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EFFORT", 0.0)  # spent after one line
    jobs = Jobs(bench, Metric(), Metric())
    jobs.print(b"loss 3\nloss 2\nloss 1\n")
    for seen in ([3.0], [3.0, 2.0], [3.0, 2.0, 1.0]):
        jobs.watcher.look()
        assert (jobs.values(ONE), jobs.values(TWO)) == (seen, seen)
        jobs.begin()


def test_of_a_flood_the_end_is_read_when_the_job_has_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LAST_EFFORT", 0.0)
    monkeypatch.setattr(progress, "_LAST_OUTPUT", 14)
    jobs = Jobs(bench, Metric())
    jobs.print(b"loss 9\n" + b"x\n" * 100 + b"loss 2\nloss 1\n")
    jobs.watcher.finish(jobs.workers[0])
    assert jobs.values(ONE) == [9.0, 2.0]


@pytest.mark.parametrize("piece", [b"\r", b"\n", b"\x08\x08 ", b"\r \r\n", b"a", b"\x1b[0m\r"])
def test_nothing_but_returns_is_cheap(bench: Bench, piece: bytes) -> None:
    """Very many empty states in one line, or of empty lines."""
    jobs = Jobs(bench, Metric())
    jobs.print(piece * ((1 << 18) // len(piece)) + b"\nloss 1\n")
    for _ in range(100):
        jobs.watcher.look()
        if jobs.values(ONE):
            break
    assert jobs.values(ONE) == [1.0]
    assert len(jobs.watcher._watched[jobs.workers[0]].rest) <= 4096
