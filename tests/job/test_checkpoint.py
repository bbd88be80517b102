"""A save is whole or not there, whenever the program is killed; the last good one is never lost; fencing."""

import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schedulearn import job
from schedulearn.executors.common.folders import has_files
from schedulearn.job import checkpoint

Run = Callable[..., Any]


class Model:
    """As models are: it can be pickled, and it can be called."""

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def __call__(self, x: int) -> int:
        return self.weight * x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint folder of the job that this process seems to be in: attempt 2 of job 17."""
    for name in ("SCHEDULEARN_CONTROL", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCHEDULEARN_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    monkeypatch.setenv("SCHEDULEARN_WORKER", "17.2.0")
    return tmp_path / "checkpoint"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def newest(folder: Path) -> Path:
    return max(folder.glob("save-*"))


def test_what_is_saved_is_restored(folder: Path) -> None:
    assert job.restore(default="fresh") == "fresh"
    assert job.latest() is None
    job.save({"epoch": 3, "weights": [1.0, 2.0]}, step=120)
    assert job.restore() == {"epoch": 3, "weights": [1.0, 2.0]}
    assert job.latest() == (newest(folder), 120)


def test_the_newest_two_are_kept_and_the_files_of_others(folder: Path) -> None:
    folder.mkdir()
    (folder / "own.pt").write_text("of the program")
    for step in (5, 9, 2, None):
        job.save(step, step)
    assert names(folder) == ["own.pt", "save-00000003", "save-00000004"]
    assert job.restore(default=0) is None
    assert job.latest() == (newest(folder), None)


def test_a_function_writes_files_and_gets_their_folder_back(folder: Path) -> None:
    def write(into: Path, text: str = "one") -> None:
        (into / "deep" / "er").mkdir(parents=True)
        (into / "deep" / "er" / "file.txt").write_text(text)

    job.save(write, step=1)
    assert (job.restore() / "deep" / "er" / "file.txt").read_text() == "one"
    job.save(partial(write, text="two"))
    assert (job.restore() / "deep" / "er" / "file.txt").read_text() == "two"


def test_an_object_that_can_be_called_is_a_state(folder: Path) -> None:
    job.save(Model(7))
    assert job.restore().weight == 7


@pytest.mark.parametrize("step", [-1, "three", 1.5])
def test_a_step_that_is_none_is_refused_and_nothing_is_saved(folder: Path, step: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        job.save("state", step)
    assert not folder.exists()


def test_a_save_that_fails_leaves_nothing_behind_but_the_one_before(folder: Path) -> None:
    job.save("good", 1)

    def write(into: Path) -> None:
        (into / "half").write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        job.save(write, 2)
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        job.save(iter(lambda: 1, 2), 3)
    assert names(folder) == ["save-00000001"]
    assert job.restore() == "good"


def test_a_signal_handler_may_save_while_the_program_is_just_doing_so(folder: Path) -> None:
    def write(into: Path) -> None:
        job.save("of the handler", 1)
        (into / "file").write_text("of the program")

    job.save(write, 2)
    assert job.latest() == (newest(folder), 2)
    assert names(folder) == ["save-00000001", "save-00000002"]


def test_the_service_does_not_take_a_save_for_a_checkpoint_before_it_is_whole(folder: Path) -> None:
    seen = []
    job.save(lambda into: seen.append(has_files(folder)) or (into / "file").touch())  # type: ignore[func-returns-value]
    assert seen == [False]
    assert has_files(folder)


# --- damage


def cut(save: Path) -> None:
    os.truncate(save / "state.pickle", 3)


def change(save: Path) -> None:
    data = bytearray((save / "state.pickle").read_bytes())
    data[-2] ^= 1
    (save / "state.pickle").write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        change,
        lambda save: (save / "state.pickle").unlink(),
        lambda save: (save / "saved.json").unlink(),
        lambda save: (save / "saved.json").write_text("{"),
        lambda save: (save / "saved.json").write_text("[]"),
        lambda save: (save / "saved.json").write_text('{"files": {}}'),
    ],
)
def test_a_damaged_one_is_passed_over_for_the_one_before(
    folder: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    job.save("first", 1)
    job.save("second", 2)
    damage(newest(folder))
    with caplog.at_level(logging.WARNING):
        assert job.restore() == "first"
    assert "save-00000002 is damaged" in caplog.text
    job.save("third", 3)
    assert job.restore() == "third"


def test_a_state_that_cannot_be_read_though_it_is_whole_is_an_error(folder: Path) -> None:
    """Else a change in the program would silently throw the training away."""
    job.save(lambda into: (into / "state.pickle").write_bytes(b"no pickle"))
    with pytest.raises(pickle.UnpicklingError):
        job.restore()


# --- kill -9


KILLED_AT_EVERY_STEP = """
import os, signal, sys
from schedulearn import job

class State:
    def __init__(self, number):
        self.number, self.weights = number, bytes(300_000)

def kill_at(count):
    # Every file opened, made, renamed or removed by the save is a step at which it may be killed.
    seen = 0
    def watch(event, _):
        nonlocal seen
        if event == "open" or event.startswith(("os.", "shutil.")):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)

good, killed = 0, True
while killed:
    job.save(State(good), good)  # sweeps what the one before left
    assert len(os.listdir(os.environ["SCHEDULEARN_CHECKPOINT_DIR"])) <= 2
    child = os.fork()
    if not child:
        kill_at(good + 1)
        job.save(State(good + 1), good + 1)
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
    found, saved = job.restore(), job.latest()
    assert found.number == saved.step and len(found.weights) == 300_000
    print("killed" if killed else "ended", found.number - good)
    good += 1
"""


def test_killed_at_any_step_of_a_save_the_last_good_one_is_there(run: Run) -> None:
    program = run(KILLED_AT_EVERY_STEP)
    ends = list(iter(program.line, ""))
    program.end()
    assert ends[-1] == "ended 1"
    early, late = ends.count("killed 0"), ends.count("killed 1")
    assert early + late + 1 == len(ends)  # after every one of them: the state before or the new one, whole
    assert early > 5
    assert late > 2
    assert ends == ["killed 0"] * early + ["killed 1"] * late + ["ended 1"]


# --- fencing


def as_attempt(monkeypatch: pytest.MonkeyPatch, worker: str) -> None:
    monkeypatch.setenv("SCHEDULEARN_WORKER", worker)


@pytest.mark.parametrize("newer", ["17.3.0", "17.10.0", "18.1.0"])
def test_an_older_attempt_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, newer: str) -> None:
    job.save("of the older", 1)
    as_attempt(monkeypatch, newer)
    job.save("of the newer", 2)
    before = names(folder)
    as_attempt(monkeypatch, "17.2.0")
    with pytest.raises(job.Fenced, match=r"this one, 17\.2, is over"):
        job.save("of the left-over", 3)
    assert names(folder) == before
    as_attempt(monkeypatch, newer)
    assert job.restore() == "of the newer"


@pytest.mark.parametrize("saves", [1, 5])
def test_an_older_attempt_that_was_suspended_in_a_save_is_fenced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, saves: int
) -> None:
    def write(into: Path) -> None:
        (into / "file").write_text("of the left-over")
        as_attempt(monkeypatch, "17.3.0")
        for number in range(saves):
            monkeypatch.setattr(checkpoint._Folder, "_sweep", lambda self: None)
            job.save(number, number)
        as_attempt(monkeypatch, "17.2.0")

    with pytest.raises(job.Fenced):
        job.save(write)
    assert names(folder) == [f"save-{saves - 1:08d}", f"save-{saves:08d}"][-saves:]
    assert job.restore() == saves - 1


def test_who_comes_too_late_for_a_name_is_fenced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspended between the look at the fence and the rename: the name it meant to take is taken."""
    rename, late, tries = Path.rename, [True], []

    def hindered(self: Path, target: Path) -> Path:
        if late and target.name.startswith("save-"):
            late.clear()
            as_attempt(monkeypatch, "17.3.0")
            job.save("of the newer", 2)
            as_attempt(monkeypatch, "17.2.0")
        if self.name.startswith(".saving-17.2"):
            tries.append(target.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", hindered)
    with pytest.raises(job.Fenced):
        job.save("of the left-over", 1)
    assert job.restore() == "of the newer"
    assert names(folder) == ["save-00000001"]
    assert tries == ["save-00000001"]  # it was never the newest, not even for an instant


def test_who_gets_a_name_after_it_was_used_and_removed_gives_it_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, late = Path.rename, [True]

    def hindered(self: Path, target: Path) -> Path:
        if late and target.name.startswith("save-"):
            late.clear()
            as_attempt(monkeypatch, "17.3.0")
            for number in range(4):
                job.save(number)
            as_attempt(monkeypatch, "17.2.0")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", hindered)
    with pytest.raises(job.Fenced):
        job.save("of the left-over", 1)
    assert names(folder) == ["save-00000003", "save-00000004"]
    assert job.restore() == 3


def test_what_a_newer_attempt_removed_is_said_to_be_fenced(folder: Path) -> None:
    with pytest.raises(job.Fenced, match="removed"):
        job.save(lambda into: shutil.rmtree(into))


def test_an_older_attempt_does_not_sweep_what_a_newer_one_is_writing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    left = [".saving-17.1.0-a", ".saving-17.2.0-b", ".old-17.2.0-c", ".saving-17.2.1-d", ".saving-17.3.0-e", ".mine"]
    for name in left:
        (folder / name).mkdir()
    job.save("state")
    assert names(folder) == [".mine", ".saving-17.2.1-d", ".saving-17.3.0-e", "save-00000001"]


# --- who saves, and where


def test_only_the_first_worker_saves(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    monkeypatch.setenv("SCHEDULEARN_CONTROL", str(control))
    as_attempt(monkeypatch, "17.2.4")
    for generation, members in enumerate(([0, 4], [0, 3], [4, 5])):
        control.write_text(json.dumps({"generation": generation + 1, "members": members}))
        job.save(members)
    assert names(folder) == ["save-00000001"]
    assert job.restore() == [4, 5]


def test_outside_a_folder_is_used_only_if_it_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDULEARN_CHECKPOINT_DIR")
    monkeypatch.delenv("SCHEDULEARN_WORKER")
    job.save("nowhere")
    assert job.restore(default="fresh") == "fresh"
    own = folder.parent / "own"
    for text in ("one", "two", "three"):
        job.save(text, folder=own)
    assert job.restore(folder=own) == "three"
    assert names(own) == ["save-00000002", "save-00000003"]


def test_inside_the_folder_of_the_job_is_used(folder: Path) -> None:
    job.save("state", folder=folder.parent / "own")
    assert names(folder.parent) == ["checkpoint"]
    assert job.restore(folder=folder.parent / "own") == "state"
