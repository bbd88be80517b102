"""The spool belongs to the job, which may have made anything of it."""

import json
import os
from pathlib import Path

import pytest

from schedulearn.service.progress import spool
from schedulearn.service.progress.spool import spooled
from schedulearn.store import Point
from support.bounded import run_bounded

GIB = 1 << 30


def report(seq: int, **values: float) -> bytes:
    return json.dumps({"seq": seq, "at": 100.0, "step": seq, "values": values or {"loss": 0.5}}).encode() + b"\n"


def steps(path: Path) -> list[int]:
    return [point.step for points in spooled(path) for point in points]


READ = """
from pathlib import Path
from schedulearn.service.progress.spool import spooled
hold()
print([point.step for points in spooled(Path(sys.argv[1])) for point in points])
"""


@pytest.mark.parametrize("before", [b"", report(1)])
def test_three_gigabytes_of_nothing_take_no_memory(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "spool.jsonl"
    with path.open("wb") as file:
        file.write(before)
        file.truncate(3 * GIB)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + report(2))
    seen = run_bounded(READ, path, cpu=60, memory=100 << 20)
    assert json.loads(seen) == ([1, 2] if before else [2])


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(report(1) + b"[" * (20 << 20) + b"\n" + report(2))
    assert json.loads(run_bounded(READ, path, cpu=60, memory=100 << 20)) == [1, 2]


def test_only_so_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(b"".join(map(report, range(100))))
    monkeypatch.setattr(spool, "_MOST_BYTES", 10 * len(report(10)))
    assert steps(path) == list(range(len(steps(path))))
    assert 9 <= len(steps(path)) <= 11


def test_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(b"".join(map(report, range(100))))
    monkeypatch.setattr(spool, "_EFFORT", 0.0)
    assert steps(path) == [0]


def test_points_come_some_at_a_time_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(b"".join(map(report, range(25))))
    monkeypatch.setattr(spool, "_AT_ONCE", 10)
    assert [len(points) for points in spooled(path)] == [10, 10, 5]
    assert steps(path) == list(range(25))


def test_neither_links_nor_pipes_nor_folders(tmp_path: Path) -> None:
    (real := tmp_path / "real").write_bytes(report(1))
    (link := tmp_path / "link").symlink_to(real)
    os.mkfifo(pipe := tmp_path / "pipe")
    (folder := tmp_path / "folder").mkdir()
    for path in (link, pipe, folder, tmp_path / "nowhere", Path("/dev/zero")):
        assert steps(path) == [], path
    assert steps(real) == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"seq": -1, "at": 1, "step": 1, "values": {"loss": 1}}',
        b'{"seq": 1, "at": 1e300, "step": 1, "values": {"loss": 1}}',
        b'{"seq": 1, "at": NaN, "step": 1, "values": {"loss": 1}}',
        b'{"seq": 1, "at": 1, "step": -1, "values": {"loss": 1}}',
        b'{"seq": 1, "at": 1, "step": 1e400, "values": {"loss": 1}}',
        b'{"seq": 1, "at": 1, "step": ' + b"9" * 10_000 + b', "values": {"loss": 1}}',
        b'{"seq": 1, "at": 1, "step": 1, "values": {' + b",".join(b'"%d": 1' % n for n in range(101)) + b"}}",
    ],
)
def test_lines_that_are_no_reports(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(report(1) + line + b"\n" + report(3))
    assert steps(path) == [1, 3]


def test_a_hundred_values_as_over_the_api(tmp_path: Path) -> None:
    path = tmp_path / "spool.jsonl"
    path.write_bytes(report(1, **{f"m{n}": float(n) for n in range(100)}))
    (points,) = spooled(path)
    assert points[7] == Point(1, 100.0, 1, "m7", 7.0)
    assert len(points) == 100
