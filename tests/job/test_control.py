"""The control file is read cheaply, followed at once, and never half read; the place in the group follows from it."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from schedulearn import job
from schedulearn.job import control as module
from schedulearn.job.control import Control, ControlFile

WHOLE = {"cpus": 2.0, "threads": 2, "memory": 4000, "world_size": 2, "generation": 3, "members": [0, 2]}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_FIRST", 0.0)
    return tmp_path / "control.json"


def test_all_fields_are_read(path: Path) -> None:
    path.write_text(json.dumps(WHOLE))
    assert ControlFile(path).read() == Control(2.0, 2, 4000, 3, (0, 2))


def test_a_file_without_members_is_of_a_job_that_keeps_its_workers(path: Path) -> None:
    path.write_text(json.dumps({"cpus": None, "threads": 1, "memory": None, "world_size": 3}))
    assert ControlFile(path).read() == Control(None, 1, None, 0, (0, 1, 2))


def test_a_change_is_seen_even_if_neither_size_nor_time_tell_of_it(path: Path) -> None:
    file = ControlFile(path)
    for generation in range(9):  # written in place, within one tick of the clock
        path.write_text(json.dumps({**WHOLE, "generation": generation}))
        assert file.read().generation == generation


def test_a_file_that_has_settled_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(json.dumps(WHOLE))
    file = ControlFile(path)
    known = file.read()
    soon = time.time() + 10
    monkeypatch.setattr(module.time, "time", lambda: soon)
    monkeypatch.setattr(module.json, "loads", lambda _: pytest.fail("it was read"))
    assert file.read() is known


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"members": 3}', '{"members": ["a"]}', '{"generation": null}'])
def test_while_it_is_half_written_what_it_said_last_holds(path: Path, text: str) -> None:
    path.write_text(json.dumps(WHOLE))
    file = ControlFile(path)
    known = file.read()
    path.write_text(text)
    assert file.read() == known
    path.unlink()
    assert file.read() == known
    path.write_text(json.dumps({**WHOLE, "generation": 4}))
    assert file.read().generation == 4


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 60.0)
    path = tmp_path / "control.json"
    path.write_text("")
    writer = threading.Timer(0.05, lambda: path.write_text(json.dumps(WHOLE)))
    writer.start()
    assert ControlFile(path).read().members == (0, 2)
    writer.join()


def test_a_file_that_never_comes_is_as_at_the_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert ControlFile(path).read() == Control(members=(0, 1, 2))


def test_outside_there_are_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDULEARN_CONTROL", raising=False)
    assert job.read_control() == Control(None, None, None, 0, (0,))


# --- the place in the group


def in_worker(monkeypatch: pytest.MonkeyPatch, rank: int, **env: str) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCHEDULEARN_WORKER", f"17.2.{rank}")
    for name, value in env.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("rank", "control", "env", "expected"),
    [
        (0, {"world_size": 1}, {}, (0, 1)),
        (1, {"world_size": 3}, {}, (1, 3)),
        (1, {"world_size": 3}, {"RANK": "1", "WORLD_SIZE": "3"}, (1, 3)),
        # Workers came and went since the environment was made.
        (2, {"generation": 3, "members": [0, 2]}, {"RANK": "2", "WORLD_SIZE": "3"}, (1, 2)),
        (5, {"generation": 3, "members": [5]}, {"RANK": "5", "WORLD_SIZE": "4"}, (0, 1)),
        (1, {"generation": 3, "members": [0, 2]}, {"RANK": "1", "WORLD_SIZE": "3"}, (None, 2)),
        # torchrun and its like inside of the worker.
        (0, {"world_size": 1}, {"RANK": "0", "WORLD_SIZE": "4"}, (0, 4)),
        (0, {"world_size": 1}, {"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        (1, {"world_size": 2}, {"RANK": "2", "WORLD_SIZE": "4"}, (2, 4)),
    ],
)
def test_the_place(
    path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, control: Any, env: dict[str, str], expected: Any
) -> None:
    path.write_text(json.dumps(control))
    in_worker(monkeypatch, rank, SCHEDULEARN_CONTROL=str(path), **env)
    assert job.place() == expected


def test_the_place_outside_is_what_a_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, 0, RANK="2", WORLD_SIZE="4")
    monkeypatch.delenv("SCHEDULEARN_WORKER")
    assert job.place() == (2, 4)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert job.place() == (0, 1)
