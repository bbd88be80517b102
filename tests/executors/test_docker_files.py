"""What goes into a container and what comes out of it: code, outputs, checkpoints, in every attempt the newest."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Workers
from schedulearn.executors.common.archive import Entry, moved, pack, unpack
from schedulearn.executors.common.folders import StaleAttempt, commit, newest_attempt, prepare_job_folders, settle
from schedulearn.executors.common.paths import JobPaths
from schedulearn.executors.docker import live
from schedulearn.executors.docker.rounds import Rounds
from schedulearn.executors.docker.rules import Rules
from support.docker import Daemons
from support.docker_bench import DockerBench

SAVE = "echo $((1 + $(cat $SCHEDULEARN_CHECKPOINT_DIR/n 2>/dev/null || echo 0))) > $SCHEDULEARN_CHECKPOINT_DIR/n"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"train.py": "print('trained')", "conf/a.txt": "a"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    return path


def test_the_snapshot_is_in_the_container(containers: DockerBench, snapshot: Path) -> None:
    launch = containers.launch("pwd; python3 train.py; cat conf/a.txt; echo > conf/b", snapshot=snapshot)
    assert containers.run(launch).ok
    assert containers.output(launch) == b"/work\ntrained\na"
    assert (containers.paths(launch).job.run / "conf" / "b").exists()


def test_outputs_and_checkpoint_come_back_and_go_on(containers: DockerBench) -> None:
    for attempt in (1, 2, 3):
        launch = containers.launch(f"{SAVE}; cat /checkpoint/n; ls; echo {attempt} > out-{attempt}", attempt=attempt)
        assert containers.run(launch).ok
        assert containers.output(launch).split()[0] == b"%d" % attempt
    assert b"out-1" in containers.output(launch)
    job = containers.paths(launch).job
    assert sorted(path.name for path in job.run.iterdir()) == ["out-1", "out-2", "out-3"]
    assert (job.checkpoint / "n").read_text() == "3\n"
    assert containers.executors[0].has_checkpoint(JobId(1))
    assert not containers.executors[0].has_checkpoint(JobId(2))


def test_a_job_moves_between_servers(containers: DockerBench, daemons: Daemons) -> None:
    first, second = containers.launch(SAVE), containers.launch(f"{SAVE}; cat /checkpoint/n", attempt=2)
    assert containers.run(first).ok
    assert containers.run(second, daemon=daemons(1)).ok
    assert containers.output(second) == b"2\n"
    assert containers.containers(daemons(1)) == []


def test_links_and_modes_survive(containers: DockerBench) -> None:
    command = "mkdir d; echo x > d/f; chmod 500 d; ln -s /etc/passwd out; ln -s d/f in; ln d/f hard; mkfifo p; :> e; ls"
    launch = containers.python(f"import os; os.mkfifo('p'); os.system({command.replace('mkfifo p; ', '')!r})")
    assert containers.run(launch).ok
    run = containers.paths(launch).job.run
    assert str((run / "out").readlink()) == "/etc/passwd"
    assert (run / "in").read_text() == (run / "hard").read_text() == "x\n"
    assert not (run / "p").exists()
    again = containers.launch("cat in hard; test -L out && rm -rf d && echo gone", attempt=2)
    assert containers.run(again).exit_code in (0, 1)
    assert containers.output(again).startswith(b"x\nx\n")


def test_several_workers_keep_what_the_first_one_wrote(containers: DockerBench) -> None:
    executor = containers.executor()
    launches = [containers.launch("echo $SCHEDULEARN_WORKER > mine", rank=rank, world_size=2) for rank in (0, 1)]
    for launch in launches:
        executor.start(launch)
    for launch in launches:
        assert containers.ended(launch).ok
    assert (containers.paths(launches[0]).job.run / "mine").read_text() == "1.1.0\n"


def is_told(containers: DockerBench, launch: Launch, generation: int) -> None:
    """Wait until the worker was told of this group."""
    said = b'"generation": %d' % generation
    containers.until(lambda: said in containers.paths(launch).control.read_bytes(), "it was told")


def test_where_the_first_one_has_left_the_next_one_leads(containers: DockerBench) -> None:
    executor = containers.executor()
    waits = "echo $SCHEDULEARN_WORKER > mine; while [ ! -e go ]; do sleep 0.01; done"
    members = [containers.launch(waits, rank=rank, group=Group(0, (0, 1))) for rank in (0, 1)]
    for launch in members:
        executor.start(launch)
    for launch in members:
        containers.started(launch)
        executor.regroup(launch.worker, launch.node, Group(1, (1,)))
        is_told(containers, launch, 1)
    executor.close()
    again = containers.executor()  # it is known by the next life, too
    for launch in reversed(members):
        again.adopt(launch.worker, launch.node)
        containers.touch(launch, "go")
        assert containers.ended(launch).ok
    assert (containers.paths(members[0]).job.run / "mine").read_text() == "1.1.1\n"


def test_a_new_leader_with_an_older_checkpoint_keeps_the_jobs(containers: DockerBench) -> None:
    executor = containers.executor()
    save = "[ ! -e save ] || echo $SCHEDULEARN_WORKER > $SCHEDULEARN_CHECKPOINT_DIR/n"
    waits = f"while [ ! -e go ]; do sleep 0.01; done; {save}"
    several = {"workers": Workers(1, 3, 3)}
    members = [containers.launch(waits, rank=rank, group=Group(0, (0, 1, 2)), spec=several) for rank in range(3)]
    for launch in members:
        executor.start(launch)
        containers.started(launch)
    kept = containers.paths(members[0]).job.checkpoint / "n"
    for launch, saves, expected in zip(members, (True, False, True), ("1.1.0\n", "1.1.0\n", "1.1.2\n"), strict=True):
        if saves:
            containers.touch(launch, "save")
        containers.touch(launch, "go")
        assert containers.ended(launch).ok
        assert kept.read_text() == expected
        for other in members[launch.worker.rank + 1 :]:
            rank = launch.worker.rank + 1
            executor.regroup(other.worker, other.node, Group(rank, tuple(range(rank, 3))))
            is_told(containers, other, rank)


def test_reports_that_could_not_be_delivered(containers: DockerBench) -> None:
    launch = containers.launch("echo line >> $SCHEDULEARN_SPOOL")
    assert containers.run(launch).ok
    assert containers.paths(launch).spool.read_bytes() == b"line\n"


def test_files_that_are_too_large_are_not_fetched_and_nothing_waits_for_them(containers: DockerBench) -> None:
    """Ten terabytes of nothing: the end says so at once, and the container goes."""
    launch = containers.python("open('small', 'w').close(); open('big', 'wb').truncate(10 << 40)")
    outcome = containers.run(launch)
    assert outcome.ok
    assert "its files could not be fetched: there is too much" in outcome.detail
    assert list(containers.paths(launch).job.run.iterdir()) == []


def test_holes_are_not_filled(containers: DockerBench) -> None:
    launch = containers.python("open('sparse', 'wb').truncate(300 << 20)")
    assert containers.run(launch).ok
    fetched = (containers.paths(launch).job.run / "sparse").stat()
    assert (fetched.st_size, fetched.st_blocks) == (300 << 20, 0)


def test_a_checkpoint_is_kept_while_the_job_runs(containers: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY", 0.1)
    monkeypatch.setattr(live, "SHARE", 1.0)
    monkeypatch.setattr(Rounds, "EVERY", 0.2)
    launch = containers.launch(f"{SAVE}; echo saved; exec sleep 1000")
    executor = containers.executor()
    executor.start(launch)
    kept = containers.paths(launch).job.checkpoint / "n"
    containers.until(lambda: kept.exists() and kept.read_text() == "1\n")
    assert executor.has_checkpoint(JobId(1))
    with containers.daemon.client() as client:
        client.api.remove_container(containers.name(launch), force=True)  # its server is lost
    assert containers.ended(launch).ending in (Ending.LOST, Ending.SIGNALLED)
    assert kept.read_text() == "1\n"


def test_a_stale_attempt_changes_nothing(
    containers: DockerBench, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the first attempt was lost; meanwhile the second one has finished elsewhere."""
    monkeypatch.setattr(Rounds, "EVERY", 3600.0)  # a round would remove its container before it can end by itself
    old = containers.launch(f"while [ ! -e go ]; do sleep 0.05; done; {SAVE}; echo old > mark")
    new = containers.launch(f"{SAVE}; echo new > mark", attempt=2)
    first = containers.executor()
    first.start(old)
    containers.started(old)
    assert containers.run(new, daemon=daemons(1)).ok
    containers.touch(old, "go")
    containers.ended(old)
    job = containers.paths(new).job
    assert (job.run / "mark").read_text() == "new\n"
    assert (job.checkpoint / "n").read_text() == "1\n"


def test_a_stale_attempt_cannot_begin(containers: DockerBench) -> None:
    assert containers.run(containers.launch("true", attempt=2)).ok
    outcome = containers.run(containers.launch("true", attempt=1))
    assert outcome.ending is Ending.NOT_STARTED
    assert "attempt 2 has begun already" in outcome.detail


def test_shared_checkpoints_are_not_copied(
    containers: DockerBench, daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts on two servers with one path; each writes into a folder of its own."""
    monkeypatch.setattr(Rounds, "EVERY", 3600.0)  # a round would end the first one, as a newer one has begun
    tmp_path.chmod(0o755)
    rules = Rules(shared_checkpoints=str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    first = containers.executor(rules=rules)
    old = containers.launch(f"{SAVE}; echo saved; while [ ! -e go ]; do sleep 0.05; done; echo late > /checkpoint/n")
    first.start(old)
    containers.until(lambda: b"saved" in containers.output(old))
    assert first.has_checkpoint(JobId(1))
    new = containers.launch(f"{SAVE}; cat /checkpoint/n", attempt=2)
    assert containers.run(new, daemon=daemons(1), rules=rules).ok
    assert containers.output(new) == b"2\n"
    containers.touch(old, "go")
    containers.ended(old)
    assert not any(containers.paths(new).job.checkpoint.iterdir())
    found = {path.parent.name: path.read_text() for path in (tmp_path / "shared").rglob("n")}
    assert found == {"1": "late\n", "2": "2\n"}
    first.forget(JobId(1))
    containers.until(lambda: not list((tmp_path / "shared").rglob("n")))


# --- archives and folders alone

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=120
)
TREES = st.recursive(
    st.binary(max_size=2000) | st.tuples(st.just("link"), NAMES),
    lambda inside: st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), inside, max_size=4),
    max_leaves=8,
)


def plant(folder: Path, tree: Any) -> None:
    for name, content in tree.items():
        path = folder / name
        if isinstance(content, dict):
            path.mkdir()
            plant(path, content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.symlink_to(content[1])


def read(folder: Path) -> Any:
    tree: dict[str, Any] = {}
    for path in folder.iterdir():
        if path.is_symlink():
            tree[path.name] = ("link", str(path.readlink()))
        else:
            tree[path.name] = read(path) if path.is_dir() else path.read_bytes()
    return tree


@settings(max_examples=30)  # two processes for each
@given(tree=TREES.filter(lambda tree: isinstance(tree, dict)))
def test_a_folder_survives_the_way_there_and_back(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    source, target, third = (tmp_path_factory.mktemp(name) for name in "abc")
    try:
        plant(source, tree)
    except OSError:
        return  # a name that this file system does not take
    planted = read(source)
    packed = list(pack([Entry("work", source)], (1, 1)))
    unpack(packed, target, None)
    assert read(target) == planted
    unpack(moved(packed, "other"), third, None)
    assert read(third) == planted


@pytest.mark.parametrize(
    "names",
    [["work/../../x"], ["/etc/x"], ["work/link", "work/link/x"]],
)
def test_archives_that_reach_outside_are_refused(tmp_path: Path, names: list[str]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            if name.endswith("link"):
                member.type, member.linkname = tarfile.SYMTYPE, "/"
            archive.addfile(member)
    with pytest.raises(ExecutorError, match="refused"):
        unpack([made.getvalue()], tmp_path, None)
    assert not (tmp_path.parent / "x").exists()


def test_half_an_archive_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_bytes(os.urandom(100_000))
    packed = b"".join(pack([Entry("x", tmp_path / "from")], (1, 1)))
    (tmp_path / "to").mkdir()
    with pytest.raises(ExecutorError, match="damaged"):
        unpack([packed[:60_000]], tmp_path / "to", None)


@pytest.fixture
def job(tmp_path: Path) -> JobPaths:
    paths = JobPaths(tmp_path / "1")
    paths.folder.mkdir()
    return paths


def worker(attempt: int) -> Any:
    from schedulearn.core.domain.ids import WorkerId

    return WorkerId(JobId(1), attempt, 0)


def test_only_the_newest_attempt_commits(job: JobPaths) -> None:
    for attempt in (1, 2):
        prepare_job_folders(worker(attempt), job, None, None)
    commit(worker(2), job, job.run, lambda folder: (folder / "new").touch())
    with pytest.raises(StaleAttempt):
        commit(worker(1), job, job.run, lambda folder: (folder / "old").touch())
    with pytest.raises(StaleAttempt):
        prepare_job_folders(worker(1), job, None, None)
    assert newest_attempt(job) == 2
    assert [path.name for path in job.run.iterdir()] == ["new"]
    assert sorted(path.name for path in job.folder.iterdir()) == ["checkpoint", "fence.json", "prepare.lock", "run"]


def test_a_crash_leaves_the_old_or_the_new(job: JobPaths) -> None:
    """At each step of a replacement."""
    prepare_job_folders(worker(1), job, None, None)
    (job.run / "old").touch()

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        commit(worker(1), job, job.run, fail)
    assert [path.name for path in job.run.iterdir()] == ["old"]
    fresh = job.folder / "run.next"
    fresh.mkdir()
    (fresh / "new").touch()
    job.run.rename(job.folder / "run.old")  # killed right here
    settle(job.run)
    assert [path.name for path in job.run.iterdir()] == ["new"]
    assert not fresh.exists()
    assert not (job.folder / "run.old").exists()


def test_an_older_or_empty_checkpoint_replaces_no_newer_one(job: JobPaths) -> None:
    prepare_job_folders(worker(1), job, None, None)

    def save(name: str, at: float) -> None:
        def fill(folder: Path) -> None:
            (folder / "step").mkdir()
            (folder / "step" / name).touch()
            os.utime(folder / "step" / name, (at, at))
            (folder / ".half").touch()  # being written: it says nothing

        commit(worker(1), job, job.checkpoint, fill, keep_newer=True)

    for name, at, kept in (("a", 100.0, "a"), ("b", 200.0, "b"), ("c", 150.0, "b")):
        save(name, at)
        assert [path.name for path in (job.checkpoint / "step").iterdir()] == [kept]
    commit(worker(1), job, job.checkpoint, lambda _: None, keep_newer=True)
    assert (job.checkpoint / "step" / "b").exists()
    commit(worker(1), job, job.checkpoint, lambda _: None)
    assert not list(job.checkpoint.iterdir()), "a job alone may remove its own"
