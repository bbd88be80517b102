"""Files that a job may have replaced are read with care."""

import os
from pathlib import Path

import pytest

from schedulearn.executors.common.control import kept_control
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, read_json, read_orders, read_small
from schedulearn.executors.process.claim import Claim, read_claim
from support.bounded import run_bounded


def link(path: Path) -> None:
    path.with_name("secret").write_bytes(b"{}")
    path.symlink_to(path.with_name("secret"))


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 1_000_000)


TRICKS = [link, sparse, os.mkfifo, Path.mkdir, nested]


@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_but_a_small_plain_file_is_read(tmp_path: Path, trick: object) -> None:
    trick(path := tmp_path / "file")  # type: ignore[operator]
    with pytest.raises(ValueError, match="file"):
        read_json(path)
    if trick is not nested:
        with pytest.raises(ValueError, match="plain"):
            read_small(path)


def test_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        read_small(path)
    path.write_bytes(b'{"a": 1}')
    assert read_small(path, 8) == b'{"a": 1}'
    assert read_json(path) == {"a": 1}
    with pytest.raises(ValueError, match="too large"):
        read_small(path, 7)
    path.write_bytes(b"[]")
    with pytest.raises(ValueError, match="no object"):
        read_json(path)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_worker_whose_files_were_replaced(tmp_path: Path, trick: object) -> None:
    paths = WorkerPaths(JobPaths(tmp_path), tmp_path)
    for path in (paths.exit, paths.launch, paths.control, paths.claim):
        trick(path)  # type: ignore[operator]
        path.with_name("secret").unlink(missing_ok=True)
    assert read_end(paths) is None
    assert read_orders(paths) == {}
    assert read_claim(paths.claim) == Claim()
    assert kept_control(paths) in (b"", b"[" * 1_000_000)


def test_three_gigabytes_are_not_read(tmp_path: Path) -> None:
    sparse(tmp_path / "exit.json")
    code = """
from pathlib import Path
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.common.paths import JobPaths, WorkerPaths
hold()
print(read_end(WorkerPaths(JobPaths(Path(sys.argv[1])), Path(sys.argv[1]))))
"""
    assert run_bounded(code, tmp_path, cpu=60, memory=100 << 20) == "None\n"
