"""What a program learns about the job that it runs in."""

import json
from pathlib import Path

import pytest

from schedulearn import job


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKER", "CHECKPOINT_DIR", "CONTROL"):
        monkeypatch.delenv(f"SCHEDULEARN_{name}", raising=False)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_outside_there_is_no_job() -> None:
    assert job.info() is None
    assert job.checkpoint_dir() is None


def test_a_single_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.0")
    monkeypatch.setenv("SCHEDULEARN_CHECKPOINT_DIR", str(tmp_path))
    assert job.info() == job.Info(17, 2, "17.2.0", rank=0, world_size=1, checkpoint_dir=tmp_path)


def test_the_number_of_workers_is_in_the_control_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_text(json.dumps({"cpus": None, "threads": 1, "memory": None, "world_size": 3}))
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.1")
    monkeypatch.setenv("SCHEDULEARN_CONTROL", str(control))
    assert job.info() == job.Info(17, 2, "17.2.1", rank=1, world_size=3, checkpoint_dir=None)


def test_a_launcher_inside_the_worker_has_its_own_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.1")
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    found = job.info()
    assert found
    assert (found.rank, found.world_size) == (5, 8)


def test_horovods_processes_have_ranks_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.0")
    monkeypatch.setenv("HOROVOD_RANK", "2")
    found = job.info()
    assert found
    assert found.rank == 2, "only one of them saves"


def test_horovods_processes_share_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_text('{"world_size": 3, "members": [0, 1, 2], "generation": 1}')
    for name, value in {"WORKER": "17.2.0", "CONTROL": str(control)}.items():
        monkeypatch.setenv(f"SCHEDULEARN_{name}", value)
    monkeypatch.setenv("HOROVOD_RANK", "2")
    monkeypatch.setenv("HOROVOD_SIZE", "3")
    assert tuple(job.place()) == (2, 3)


@pytest.mark.parametrize("text", ["", "17", "17.2", "a.b.c"])
def test_a_strange_worker_id_is_no_job(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SCHEDULEARN_WORKER", text)
    assert job.info() is None


def test_the_checkpoint_folder_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert job.checkpoint_dir(tmp_path / "own" / "folder") == tmp_path / "own" / "folder"
    assert (tmp_path / "own" / "folder").is_dir()
    monkeypatch.setenv("SCHEDULEARN_CHECKPOINT_DIR", str(tmp_path / "given"))
    assert job.checkpoint_dir(tmp_path / "own") == tmp_path / "given"
    assert (tmp_path / "given").is_dir()
