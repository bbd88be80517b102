"""Checkpoints of containers that run: which of their files are whole, and how little is sent to have them."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schedulearn.archive.reader import FILE
from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.executors.common.folders import fetched_at, prepare_job_folders
from schedulearn.executors.common.paths import JobPaths, WorkerPaths, write_json
from schedulearn.executors.docker import live
from schedulearn.executors.docker.calls import NotThere
from schedulearn.executors.docker.containers import FOLDER_BIT
from schedulearn.executors.docker.live import Changing, Known, LiveCheckpoints
from schedulearn.executors.docker.resting import PATIENCE, QUIET, Rest, Seen
from schedulearn.executors.docker.rounds import Rounds
from support.bench import SystemClock
from support.docker_bench import DockerBench

NOW = 1_800_000_000.0
WORKER = WorkerId(JobId(1), 1, 0)


# --- which files rest


def file(age: float, size: int = 1) -> Seen:
    return Seen(FILE, 0o644, "", size, int((NOW - age) * 1e9))


def test_all_are_waited_for_that_will_rest() -> None:
    rest = Rest()
    assert rest.take({"model": file(QUIET), "optimizer": file(0.5)}, NOW) is None
    taken = rest.take({"model": file(QUIET), "optimizer": file(QUIET)}, NOW)
    assert taken
    assert (taken.whole.keys(), taken.left) == ({"model", "optimizer"}, frozenset())


def test_nobody_waits_for_what_never_rests() -> None:
    rest = Rest()
    for look in range(1, PATIENCE):
        assert rest.take({"model": file(60), "log": file(0, look)}, NOW) is None
    for look in range(PATIENCE, PATIENCE + 2):
        taken = rest.take({"model": file(60), "log": file(0, look)}, NOW)
        assert taken
        assert (taken.whole.keys(), taken.left) == ({"model"}, {"log"})
    assert rest.take({"model": file(0), "log": file(0, 9)}, NOW) is None, "one that rested before is waited for"


def test_a_new_file_each_time_is_not_waited_for_without_end() -> None:
    rest = Rest()
    looks = [rest.take({"old": file(60), f"step-{look}": file(0)}, NOW) for look in range(PATIENCE)]
    assert [look is None for look in looks] == [True] * (PATIENCE - 1) + [False]


def test_what_is_written_anew_all_the_time_in_one_size_is_tried() -> None:
    rest = Rest()
    looks = [rest.take({"latest": file(0.1 * look, 100)}, NOW) for look in range(PATIENCE)]
    assert looks[-1]
    assert (looks[-1].whole.keys(), looks[-1].hasty) == ({"latest"}, {"latest"})


@pytest.mark.parametrize(
    "path", ["save-00000012/state.pickle", "events.out.tfevents.17.host", "a/events.out.tfevents.1"]
)
def test_saves_of_our_own_and_event_files_are_taken_at_any_time(path: str) -> None:
    taken = Rest().take({path: file(0)}, NOW)
    assert taken
    assert taken.whole.keys() == {path}


# --- what is sent, and what becomes of it


class Folder:
    """Stands for the containers of an engine: a folder of this machine is the checkpoint folder of the only one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sent: list[str] = []
        self.while_read: Callable[[], object] = lambda: None

    def name(self, worker: WorkerId) -> str:
        return str(worker)

    def now(self) -> float:
        return NOW

    def changed(self, _: str) -> list[str]:
        return ["/checkpoint", *(f"/checkpoint/{path.relative_to(self.root)}" for path in sorted(self.root.rglob("*")))]

    def look_at(self, _: str, path: str, strict: bool = False) -> dict[str, Any] | None:
        assert strict
        there = self._there(path)
        if not there.exists():
            return None
        info = there.lstat()
        at = datetime.fromtimestamp(info.st_mtime_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        mode = info.st_mode & 0o777 | (FOLDER_BIT if there.is_dir() else 0)
        fraction = f"{info.st_mtime_ns % 10**9:09}".rstrip("0")
        return {"mode": mode, "size": info.st_size, "mtime": f"{at}.{fraction}Z" if fraction else f"{at}Z"}

    def get(self, _: str, path: str) -> Iterator[bytes]:
        there = self._there(path)
        if not there.exists():
            raise NotThere(404, "no such file")
        self.sent.append(path.removeprefix("/checkpoint").lstrip("/"))
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.add(there, there.name if there != self.root else "checkpoint")
        self.while_read()
        return iter([stream.getvalue()])

    def _there(self, path: str) -> Path:
        return self.root / path.removeprefix("/checkpoint").lstrip("/")


class Checkpoint:
    """One that is written by a job, and brought."""

    def __init__(self, folder: Path) -> None:
        self.inside, self.job = folder / "inside", JobPaths.of(folder, WORKER.job)
        self.inside.mkdir()
        self.paths = WorkerPaths.of(folder, WORKER)
        self.paths.folder.mkdir(parents=True)
        self.engine, self.brought, self.written = Folder(self.inside), Known(), 0
        prepare_job_folders(WORKER, self.job, None, None)
        write_json(self.paths.launch, {"uid": os.getuid(), "gid": os.getgid()})

    def write(self, path: str, content: str, age: float = 60.25) -> None:
        """Beside it, and then renamed."""
        place = self.inside / path
        place.parent.mkdir(parents=True, exist_ok=True)
        half = self.inside / ".half"
        half.write_text(content)
        self.written += 1  # no two of them at the same moment
        os.utime(half, ns=(0, int((NOW - age) * 1e9) + self.written))
        half.rename(place)

    def bring(self) -> bool:
        self.engine.sent.clear()
        live = LiveCheckpoints(self.engine, SystemClock())  # type: ignore[arg-type]
        return live.fetch_once(WORKER, self.paths, self.brought)

    @property
    def kept(self) -> dict[str, str]:
        found = (path for path in self.job.checkpoint.rglob("*") if path.is_file())
        return {str(path.relative_to(self.job.checkpoint)): path.read_text() for path in found}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def test_only_what_has_changed_is_sent(checkpoint: Checkpoint) -> None:
    large = "x" * (20 << 20)
    checkpoint.write("shards/a", large)
    checkpoint.write("step", "1")
    assert checkpoint.bring()
    assert not checkpoint.bring()
    assert checkpoint.engine.sent == []
    checkpoint.write("step", "2")
    (checkpoint.inside / ".half").write_text("being written")
    assert checkpoint.bring()
    assert checkpoint.engine.sent == ["step"]
    assert checkpoint.kept == {"shards/a": large, "step": "2"}
    (checkpoint.inside / "shards" / "a").unlink()
    assert checkpoint.bring()
    assert checkpoint.kept == {"step": "2"}


def test_what_was_put_into_the_container_is_not_sent_back(checkpoint: Checkpoint) -> None:
    for folder in (checkpoint.inside, checkpoint.job.checkpoint):
        (folder / "model").write_text("x" * (20 << 20))
        os.utime(folder / "model", (NOW - 600, NOW - 600))
    checkpoint.write("step", "1")
    assert checkpoint.bring()
    assert checkpoint.engine.sent == ["step"]
    assert checkpoint.kept.keys() == {"model", "step"}


def test_many_small_files_are_sent_at_once(checkpoint: Checkpoint) -> None:
    for number in range(50):
        checkpoint.write(f"shards/{number}", str(number))
    assert checkpoint.bring()
    assert checkpoint.engine.sent == [""]
    assert checkpoint.kept == {f"shards/{number}": str(number) for number in range(50)}


def test_a_file_that_never_rests_keeps_its_last_whole_version(checkpoint: Checkpoint) -> None:
    checkpoint.write("log", "begin")
    checkpoint.write("model", "1")
    assert checkpoint.bring()
    for look in range(1, PATIENCE + 1):
        checkpoint.write("model", "2")
        checkpoint.write("log", "begin" + look * ".", age=0)
        assert checkpoint.bring() is (look == PATIENCE)
    assert checkpoint.kept == {"log": "begin", "model": "2"}


def test_a_file_that_is_saved_anew_all_the_time_is_brought(checkpoint: Checkpoint) -> None:
    for look in range(1, PATIENCE + 3):
        checkpoint.write("latest", f"{look:03}", age=0.1)
        assert checkpoint.bring() is (look >= PATIENCE)
    assert checkpoint.kept == {"latest": f"{PATIENCE + 2:03}"}


def test_what_is_written_while_it_is_read_is_not_taken_for_whole(checkpoint: Checkpoint) -> None:
    checkpoint.write("model", "1")
    assert checkpoint.bring()
    checkpoint.write("model", "2")
    checkpoint.engine.while_read = lambda: checkpoint.write("model", "3", age=0)
    with pytest.raises(Changing):
        checkpoint.bring()
    assert checkpoint.kept == {"model": "1"}


def test_a_checkpoint_is_never_replaced_by_nothing_while_the_job_runs(checkpoint: Checkpoint) -> None:
    checkpoint.write("model", "1")
    assert checkpoint.bring()
    (checkpoint.inside / "model").unlink()
    assert not checkpoint.bring()
    assert checkpoint.kept == {"model": "1"}


def test_a_file_that_somebody_removed_here_is_sent_again(checkpoint: Checkpoint) -> None:
    checkpoint.write("model", "1" * (20 << 20))
    checkpoint.write("step", "1")
    assert checkpoint.bring()
    (checkpoint.job.checkpoint / "model").unlink()
    checkpoint.write("step", "2")
    with pytest.raises(Changing):
        checkpoint.bring()
    assert checkpoint.bring()
    assert checkpoint.kept.keys() == {"model", "step"}


def test_an_older_attempt_brings_nothing(checkpoint: Checkpoint) -> None:
    checkpoint.write("model", "1")
    prepare_job_folders(WORKER._replace(attempt=2), checkpoint.job, None, None)
    assert not checkpoint.bring()
    assert checkpoint.kept == {}


# --- with real containers


def test_a_folder_that_is_written_to_all_the_time_and_a_server_that_is_lost(
    containers: DockerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY", 0.1)
    monkeypatch.setattr(live, "SHARE", 1.0)
    monkeypatch.setattr(Rounds, "EVERY", 0.2)
    endless = "while true; do echo line >> /checkpoint/log; sleep 0.05; done"
    first = containers.launch(
        f"mkdir /checkpoint/sub; echo 7 > /checkpoint/sub/step; ln -s sub /checkpoint/l; {endless}"
    )
    executor = containers.executor()
    executor.start(first)
    job = containers.paths(first).job
    containers.until(lambda: (job.checkpoint / "sub" / "step").exists(), "its checkpoint is brought")
    containers.until(lambda: fetched_at(job), "when that was is written down")
    assert (job.checkpoint / "sub" / "step").read_text() == "7\n"
    assert (job.checkpoint / "l").readlink() == Path("sub")
    with containers.daemon.client() as client:
        client.api.remove_container(containers.name(first), force=True)  # its server is lost
    containers.ended(first)
    second = containers.launch("cat /checkpoint/sub/step", attempt=2)
    executor.start(second)
    assert containers.ended(second).ok
    assert containers.output(second) == b"7\n"
    assert "begins anew" not in containers.started(second).note


def test_the_story_says_when_a_job_begins_without_a_checkpoint(containers: DockerBench) -> None:
    first, second = containers.launch("true"), containers.launch("true", attempt=2)
    assert containers.run(first).ok
    assert containers.run(second).ok
    assert containers.started(first).note == ""
    assert "no checkpoint of it was brought" in containers.started(second).note
