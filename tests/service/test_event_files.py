"""TensorBoard's event files: read as they grow, whoever wrote them, and whatever a job does to them meanwhile."""

import os
import random
import struct
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.errors import StoreAway
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.spec import Metric
from schedulearn.service.common.config import DataFolder
from schedulearn.service.progress import event_files
from schedulearn.service.progress.event_files import EventFileWatcher
from schedulearn.service.progress.tags import full_name, likeness
from schedulearn.service.progress.tensorboard.files import EventFiles
from schedulearn.service.progress.tensorboard.records import LARGEST, Scalar, masked_crc, scalars, scan
from schedulearn.store import Point, Store
from support.clock import HandClock
from support.scheduling import Bench

DATA = Path(__file__).parents[1] / "data" / "events"
ONE = JobId(1)
WORKER = WorkerId(ONE, 1, 0)
NAME = "events.out.tfevents.1"


def real(*parts: str) -> bytes:
    """A file that a real writer wrote."""
    (path,) = DATA.joinpath(*parts).glob("events.out.*")
    return path.read_bytes()


REAL = [real("tf2"), real("torch"), real("keras", "train"), real("keras", "validation")]


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def event(at: float, step: int, **values: float) -> bytes:
    """As torch writes it, one record."""
    summary = b""
    for name, value in values.items():
        inner = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x15" + struct.pack("<f", value)
        summary += b"\x0a" + bytes([len(inner)]) + inner
    return record(b"\x09" + struct.pack("<d", at) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary)


def curve(data: bytes, tag: str) -> list[tuple[int, float]]:
    return [(one.step, round(one.value, 4)) for one in scan(data)[0] if one.tag == tag]


LOSSES = [(step, round(2 / (1 + step), 4)) for step in range(12)]


# --- the format


def test_what_the_real_writers_write() -> None:
    assert curve(real("tf2"), "train/loss") == LOSSES
    assert [step for step, _ in curve(real("tf2"), "lr")] == list(range(12)), "in double precision"
    assert curve(real("torch"), "Loss/train") == [(step * 100, value) for step, value in LOSSES]
    assert curve(real("torch"), "Accuracy/train")[2] == (200, 0.1), "of the new style"
    assert [step for step, _ in curve(real("keras", "train"), "epoch_loss")] == [0, 1, 2]
    assert [step for step, _ in curve(real("keras", "train"), "batch_loss")] == list(range(1, 13))
    assert {one.tag for one in scan(real("tf2"))[0]} == {"train/loss", "lr"}, "texts and histograms are no scalars"


def test_checksums_are_those_of_the_real_writers() -> None:
    for data in REAL:
        assert scan(data)[1:] == (len(data), 0)


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (b"\x08\x01\x12\x00\x2a\x04" + struct.pack("<f", 0.5), 0.5),  # float_val, packed
        (b"\x08\x01\x12\x00\x2d" + struct.pack("<f", 0.5), 0.5),  # float_val
        (b"\x08\x02\x12\x00\x22\x08" + struct.pack("<d", 0.25), 0.25),  # tensor_content
        (b"\x08\x03\x12\x00\x3a\x01\x07", 7.0),  # int_val
        (b"\x08\x09\x12\x00\x50\x07", 7.0),  # int64_val, not packed
        (b"\x08\x13\x12\x00\x6a\x02\x80\x70", 0.5),  # half_val: the bits of 0.5
        (b"\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x04" + struct.pack("<f", 0.5), 0.5),  # one element in a list
        (b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + struct.pack("<ff", 1, 2), None),  # two elements
        (b"\x08\x07\x12\x00\x42\x01x", None),  # a text
        (b"\x08\x01\x12\x00", 0.0),
    ],
)
def test_numbers_of_every_kind(tensor: bytes, value: float | None) -> None:
    inner = b"\x0a\x01x\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(inner)]) + inner
    data = b"\x09" + struct.pack("<d", 1.0) + b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x2a"
    found = scalars(data + bytes([len(summary)]) + summary)
    assert found == ([] if value is None else [Scalar(1.0, -1, "x", value)])


@given(st.sampled_from(REAL), st.data())
def test_cut_off_anywhere_only_the_end_is_missing(data: bytes, draw: Any) -> None:
    whole = scan(data)[0]
    cut = draw.draw(st.integers(0, len(data)))
    found, used, _ = scan(data[:cut])
    assert found == whole[: len(found)]
    assert found + scan(data[used:])[0] == whole


@given(st.binary(max_size=300))
def test_garbage_has_no_scalars(data: bytes) -> None:
    assert scan(data)[0] == []
    scalars(data)
    assert scan(record(data))[1] == len(data) + 16


@given(st.integers(0, 2**32))
def test_a_damaged_record_costs_only_itself(seed: int) -> None:
    chance = random.Random(seed)
    records = [event(float(i), i, loss=1.0) for i in range(5)]
    hit = chance.randrange(5)
    damaged = bytearray(records[hit])
    damaged[chance.randrange(12, len(damaged))] ^= 1 << chance.randrange(8)
    found, used, _ = scan(b"".join([*records[:hit], bytes(damaged), *records[hit + 1 :]]))
    assert [one.step for one in found] == [i for i in range(5) if i != hit]
    assert used == sum(map(len, records))


# --- in a folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def steps(files: EventFiles, most: int = 1 << 20) -> list[int]:
    return [one.step for piece in files.look(most) for _, one in piece]


@settings(max_examples=25, deadline=None)
@given(data=st.sampled_from(REAL), cuts=st.lists(st.integers(1, 4000), max_size=20))
def test_in_any_pieces_the_same(tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int]) -> None:
    folder = tmp_path_factory.mktemp("grows")
    files, found = EventFiles(folder, 0.0), []
    ends = [end for end in accumulate(cuts) if end < len(data)] + [len(data)]
    for begin, end in zip([0, *ends], ends, strict=False):
        with (folder / NAME).open("ab") as file:
            file.write(data[begin:end])
        found += [one for piece in files.look(1 << 20) for _, one in piece]
    assert found == scan(data)[0]


def test_new_files_and_new_folders_are_found_later(root: Path) -> None:
    files = EventFiles(root, 0.0)
    assert steps(files) == []
    for step, place in enumerate(["logs/train", "logs/validation", "logs/train/deeper", "."]):
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / f"{NAME}.{step}").write_bytes(event(1.0, step, loss=1.0))
        assert steps(files) == [step]
    assert {folder for piece in EventFiles(root, 0.0).look(1 << 20) for folder, _ in piece} == {
        ".", "logs/train", "logs/validation", "logs/train/deeper",
    }  # fmt: skip


def test_folders_that_did_not_change_are_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (root / name).mkdir()
    (root / "a" / NAME).write_bytes(event(1.0, 1, loss=1.0))
    for path in (root, *root.iterdir()):
        os.utime(path, (1.7e9, 1.7e9))
    files = EventFiles(root, 0.0)
    assert steps(files) == [1]
    opened: list[Any] = []
    monkeypatch.setattr(os, "scandir", lambda fd: opened.append(fd))
    with (root / "a" / NAME).open("ab") as file:
        file.write(event(2.0, 2, loss=1.0))
    assert steps(files) == [2]
    assert opened == []


def test_a_file_that_was_replaced_cut_or_removed(root: Path) -> None:
    path, files = root / NAME, EventFiles(root, 0.0)
    path.write_bytes(event(1.0, 1, loss=1.0) + event(2.0, 2, loss=1.0))
    assert steps(files) == [1, 2]
    path.write_bytes(event(3.0, 3, loss=1.0))
    assert steps(files) == [3], "written anew"
    path.write_bytes(event(4.0, 4, loss=1.0) + event(5.0, 5, loss=1.0))
    assert steps(files) == [4, 5], "written anew, and longer"
    copy = root / "copy"
    copy.write_bytes(path.read_bytes() + event(6.0, 6, loss=1.0))
    copy.replace(path)
    assert steps(files) == [6], "a copy that goes on, as of a container"
    path.unlink()
    assert steps(files) == []
    path.write_bytes(event(7.0, 7, loss=1.0))
    assert steps(files) == [7]


def test_links_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / NAME).write_bytes(event(1.0, 1, loss=1.0))
    (root / NAME).symlink_to(outside / NAME)
    (root / "logs").symlink_to(outside)
    (root / "own").mkdir()
    os.mkfifo(root / "own" / NAME)
    files = EventFiles(root, 0.0)
    assert steps(files) == []
    (root / "own" / NAME).unlink()
    (root / "own" / NAME).write_bytes(event(2.0, 2, loss=1.0))
    assert steps(files) == [2]
    (root / "own" / NAME).unlink()
    (root / "own").rmdir()
    (root / "own").symlink_to(outside)
    assert steps(files) == [], "swapped for a link between two looks"
    (root / "root").symlink_to(outside)
    assert steps(EventFiles(root / "root", 0.0)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_only_files_of_the_jobs_own_user(root: Path) -> None:
    (root / NAME).write_bytes(event(1.0, 1, loss=1.0))
    os.chown(root, 12345, 12345)
    assert steps(EventFiles(root, 0.0)) == []
    os.chown(root / NAME, 12345, 12345)
    assert steps(EventFiles(root, 0.0)) == [1]


def test_pictures_are_stepped_over_and_what_is_read_is_bounded(root: Path) -> None:
    picture = record(bytes(5 * LARGEST))
    (root / NAME).write_bytes(event(1.0, 1, loss=1.0) + picture * 20 + event(2.0, 2, loss=1.0) + picture[:-1])
    files = EventFiles(root, 0.0)
    looks = [steps(files, 1 << 18) for _ in range(30)]
    assert [step for some in looks for step in some] == [1, 2]
    assert len([some for some in looks if some]) == 2, "not all at once"
    with (root / NAME).open("ab") as file:
        file.write(picture[-1:] + event(3.0, 3, loss=1.0))
    assert steps(files) == [3]


def test_a_damaged_length_ends_the_file(root: Path) -> None:
    (root / NAME).write_bytes(event(1.0, 1, loss=1.0) + b"x" * (LARGEST + 100) + event(2.0, 2, loss=1.0))
    files = EventFiles(root, 0.0)
    assert steps(files) == [1]
    assert steps(files) == []


def test_files_that_came_with_the_project_are_left_alone(root: Path) -> None:
    (root / NAME).write_bytes(event(1.0, 1, loss=1.0))
    os.utime(root / NAME, (1000.0, 1000.0))
    assert steps(EventFiles(root, 2000.0)) == []


# --- which tag is the metric


@pytest.mark.parametrize(
    ("metric", "tag", "folder", "fit"),
    [
        ("loss", "loss", "", 0),
        ("loss", "Loss", "runs/Nov16", 0),
        ("loss", "train/loss", "", 1),
        ("loss", "Loss/train", "", 1),
        ("loss", "train_loss", "lightning_logs/version_0", 1),
        ("loss", "train_loss_step", "", 2),
        ("loss", "batch_loss", "logs/train", 2),
        ("loss", "epoch_loss", "logs/train", 3),
        ("loss", "epoch_loss", "logs/validation", None),
        ("loss", "val_loss", "", None),
        ("loss", "Loss/val", "", None),
        ("loss", "loss", "eval", None),
        ("loss", "test/loss", "", None),
        ("loss", "regularisation_loss", "", None),
        ("loss", "evaluation_loss_vs_iterations", "logs/validation", None),
        ("val_loss", "val_loss", "", 0),
        ("val_loss", "Loss/val", "", 1),
        ("val_loss", "epoch_loss", "logs/validation", 3),
        ("val_loss", "epoch_loss", "logs/train", None),
        ("val_loss", "loss", "", None),
        ("accuracy", "train/acc", "", 1),
        ("accuracy", "top5_accuracy", "", None),
        ("epoch", "epoch", "", None),
    ],
)
def test_which_tags_mean_the_metric(metric: str, tag: str, folder: str, fit: int | None) -> None:
    assert likeness(metric, tag, folder) == fit


def test_names_of_other_figures() -> None:
    assert full_name("lr", "logs/train") == "lr"
    assert full_name("epoch_loss", "logs/validation") == "validation/epoch_loss"


# --- as progress of a job


class Job:
    """One running worker, and the folder in which it writes event files."""

    def __init__(self, bench: Bench, folder: Path, **metric: Any) -> None:
        self.bench, self.store, self.folder, self.metric = bench, bench.store, folder, Metric(**metric)
        bench.running(metric=self.metric)
        self.now = bench.job(ONE).submitted_at
        self.begin()

    def begin(self) -> None:
        self.watcher = EventFileWatcher(self.store, lambda _: [self.folder], self.bench.clock)
        self.watcher.watch(WORKER, self.metric)

    def writes(self, after: float, step: int, name: str = NAME, **values: float) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(event(self.now + after, step, **values))
        os.utime(self.folder / name, (self.now + 10, self.now + 10))

    def curve(self, name: str | None = None) -> list[tuple[int, float]]:
        self.watcher.look()
        return [(point.step, round(point.value, 3)) for point in self.store.curve(ONE, name or self.metric.name)]


@pytest.fixture
def make(store: Store, folder: DataFolder, clock: HandClock, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    place = tmp_path / "run"
    place.mkdir()
    return lambda **metric: Job(Bench(store, folder, clock), place, **metric)  # type: ignore[return-value]


def test_progress_of_a_job_that_says_nothing(make: Callable[..., Job]) -> None:
    job = make()
    job.writes(1, 1, train_loss=3.0, lr=0.1)
    assert job.curve() == [(1, 3.0)]
    job.writes(2, 2, train_loss=2.0, val_loss=9.0)
    assert job.curve() == [(1, 3.0), (2, 2.0)]
    assert {(series.name, series.source) for series in job.store.series_of(ONE)} == {
        ("loss", "files"), ("lr", "files"), ("val_loss", "files"),
    }  # fmt: skip
    row = job.store.job(ONE)
    assert row
    assert row.progress
    assert (row.progress.step, row.progress.updated_at) == (2, job.now + 2)


def test_after_a_restart_nothing_is_there_twice(make: Callable[..., Job]) -> None:
    job = make()
    job.writes(1, 1, loss=3.0)
    assert job.curve() == [(1, 3.0)]
    job.begin()
    job.writes(2, 2, loss=2.0)
    assert job.curve() == [(1, 3.0), (2, 2.0)]


def test_of_several_tags_one_is_followed(make: Callable[..., Job]) -> None:
    job = make()
    job.writes(1, 1, train_loss_epoch=3.0, train_loss_step=2.0)
    assert job.curve() == [(1, 2.0)], "the one that comes more often"
    job.writes(2, 2, train_loss_epoch=3.0, train_loss_step=1.0, loss=7.0)
    assert job.curve() == [(1, 2.0), (2, 1.0)], "and it stays that one"
    job.writes(3, 3, train_loss_epoch=3.0)
    assert job.curve()[-1] == (2, 1.0)


def test_files_go_before_output_and_reports_before_files(make: Callable[..., Job]) -> None:
    job = make()
    job.store.add_points(ONE, 1, 0, "pattern", [Point(1, job.now + 50, 1, "loss", 9.0)])
    job.writes(1, 10, loss=3.0)
    assert job.curve() == [(10, 3.0)]
    assert job.store.add_points(ONE, 1, 0, "pattern", [Point(2, job.now + 51, 2, "loss", 8.0)]).new == 0
    job.store.add_points(ONE, 1, 0, "report", [Point(1, job.now + 2, 20, "loss", 2.0)])
    job.writes(3, 30, loss=1.0)
    assert job.curve() == [(20, 2.0)]


def test_what_other_trainings_left_in_the_project_is_not_this_jobs(make: Callable[..., Job]) -> None:
    job = make()
    job.writes(-100, 1, loss=3.0)
    job.writes(1, 2, loss=2.0)
    job.writes(10**9, 3, loss=1.0)
    assert job.curve() == [(2, 2.0)], "nor is what lies far ahead"


def test_only_so_many_names(make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "_MOST_NAMES", 3)
    job = make()
    for number in range(10):
        job.writes(1 + number, number, **{f"layer{number}": 1.0})
    job.writes(20, 9, loss=1.0)
    assert job.curve() == [(9, 1.0)]
    assert len(job.store.series_of(ONE)) == 4


def test_at_the_end_everything_is_read(make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "_AT_ONCE", 1)
    job = make()
    job.watcher.watch(WorkerId(ONE, 1, 1), job.metric)
    for number in range(1, 9):
        job.writes(number, number, name=f"{NAME}.{number}", loss=1.0)
    assert len(job.curve()) < 8
    job.watcher.finish(WORKER)
    assert len(job.curve()) < 8, "another worker still runs"
    job.watcher.finish(WorkerId(ONE, 1, 1))
    assert len(job.curve()) == 8


def test_a_job_that_was_deleted_disturbs_nobody(make: Callable[..., Job]) -> None:
    job = make()
    job.writes(1, 1, loss=3.0)
    job.bench.ask("delete", ONE)
    job.bench.cycle()
    job.bench.exited("1.1.0")
    job.bench.cycle()
    assert job.store.job(ONE) is None
    assert job.curve() == []


@pytest.mark.parametrize("ended", [False, True])
def test_what_was_found_while_the_store_is_away_is_kept(
    make: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    def away(*_: Any) -> None:
        raise StoreAway("it is full")

    job = make()
    with monkeypatch.context() as patched:
        patched.setattr(Store, "add_points", away)
        job.writes(1, 1, loss=3.0)
        job.watcher.look()
        job.writes(2, 2, loss=2.0)
        if ended:
            assert not job.watcher.finish(WORKER)
            assert not job.watcher.finish(WORKER), "asked again"
    assert job.curve() == [(1, 3.0), (2, 2.0)]
    assert job.watcher.finish(WORKER)
