"""What a worker with a user of its own can see and do, and that nobody can pass for its supervisor."""

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.ports import Launch
from schedulearn.executors.common.endings import read_end
from schedulearn.executors.kernel.groups import Cgroups
from schedulearn.executors.kernel.procfs import descendants
from schedulearn.executors.process import cgroups as permitted
from schedulearn.executors.process.claim import Claim, read_claim
from schedulearn.executors.process.view import NO_MOUNTS, Mounts, User, detect_mounts, isolation
from support.bench import NODE
from support.service import SOURCE

UID = 70_123
# Has a key in its session's keyring, as who logs in with Kerberos has; looks for it as a job's process would.
WITH_A_KEY = """
import ctypes, os, sys
from schedulearn.executors.process.confine import _KEYCTL, drop_rights
libc, keyctl = ctypes.CDLL(None), _KEYCTL.get(os.uname().machine)
JOIN, SEARCH, OWN = 1, 10, -3
if keyctl is None or libc.syscall(keyctl, JOIN, None) < 0:
    sys.exit("keys cannot be used here")
def found():
    return libc.syscall(keyctl, SEARCH, OWN, b"user", b"secret", 0) > 0
add_key = keyctl - 2  # so it is on every machine of that table
libc.syscall(add_key, b"user", b"secret", b"of root", 7, OWN)
before = found()
drop_rights(int(sys.argv[1]), int(sys.argv[1]), [])
print(before, found())
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def mounts() -> Mounts:
    """Of this machine; tests that need them skip where it permits none."""
    found = detect_mounts()
    if not found.possible:
        pytest.skip(f"no mounts of its own can be made here: {found.problem}")
    return found


def said(bench: Any, command: str, **more: Any) -> str:
    """What a shell command of a worker with a user of its own wrote; it must succeed."""
    launch = bench.launch(command, uid=UID, gid=UID, **more)
    outcome = bench.run(launch)
    text: str = bench.output(launch).decode()
    assert outcome.ok, f"{outcome}: {text}"
    return text


# --- what it can do


@as_root
def test_it_has_no_rights_beyond_its_users(bench: Any) -> None:
    status = dict(line.split(":\t", 1) for line in said(bench, "cat /proc/self/status").splitlines())
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == status["Gid"].split() == [str(UID)] * 4
    assert status["Groups"].strip() == ""


@as_root
def test_keys_of_whoever_started_the_service_are_not_lent_to_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITH_A_KEY, str(UID)], capture_output=True, text=True, check=False, cwd="/"
    )
    if "keys cannot be used here" in ran.stderr:
        pytest.skip(ran.stderr.strip())
    assert ran.stdout.split() == ["True", "False"], ran.stderr


@as_root
def test_without_mounts_of_its_own_it_has_no_rights_either(bench: Any) -> None:
    """Where the system permits no mounts, the rest is in force, and it is said that they are not."""
    launch = bench.launch("grep -E 'CapBnd|NoNewPrivs' /proc/self/status; id -u", uid=UID, gid=UID)
    assert bench.run(launch, mounts=NO_MOUNTS).ok
    assert bench.output(launch).split() == [b"CapBnd:", b"0" * 16, b"NoNewPrivs:", b"1", str(UID).encode()]


# --- what others of its user can do to it


@as_root
def test_it_is_given_up_if_its_user_stops_it_before_it_runs(bench: Any) -> None:
    """Else whoever starts it would wait for ever, and could not be told to end."""
    program = bench.root / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the system tells us that somebody wants to open it
    handle = os.open(program, os.O_RDWR)
    try:
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # whoever opens it has to wait
        launch = bench.launch((str(program),), uid=UID, gid=UID)
        bench.executor(mounts=NO_MOUNTS).start(launch)
        os.kill(bench.until(lambda: of_user(UID), "it has become its user"), signal.SIGSTOP)
        outcome = bench.ended(launch)
    finally:
        os.close(handle)
        signal.signal(signal.SIGIO, before)
    assert (outcome.ending, "stopped it before it ran" in outcome.detail) == (Ending.NOT_STARTED, True)


def of_user(uid: int) -> int | None:
    """A process below this one that runs as that user."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if f"\nUid:\t{uid}\t" in Path(f"/proc/{pid}/status").read_text():
                return pid
    return None


# --- what it can see


@as_root
def test_folders_for_temporary_files_are_its_own(bench: Any, mounts: Mounts, tmp_path: Path) -> None:
    seen = said(bench, "for d in /tmp /var/tmp /dev/shm; do echo x > $d/mine; stat -c %a:%u $d; ls -A $d; done")
    root = bench.root.parts[2]
    python = {Path(place).parts[2] for place in (sys.prefix, SOURCE) if Path(place).parts[1] == "tmp"}  # if it is there
    assert seen.split() == ["1777:0", *sorted({"mine", root, *python}), "1777:0", "mine", "1777:0", "mine"]
    assert not any(Path(folder, "mine").exists() for folder in ("/tmp", "/var/tmp", "/dev/shm"))
    assert tmp_path.exists()  # in the machine's own, which the worker did not see


@as_root
def test_it_sees_its_own_job_and_nothing_else_of_the_data_folder(bench: Any, mounts: Mounts) -> None:
    other = bench.launch("echo secret > file", job=2, uid=UID, gid=UID)
    assert bench.run(other).ok
    (bench.root / "client.json").write_text("secret")
    (bench.root / "client.json").chmod(0o644)
    seen = said(
        bench, f"ls -A {bench.root} {bench.root}/jobs; cat {bench.root}/client.json {bench.root}/jobs/2/run/*; true"
    )
    assert "secret" not in seen
    assert sorted(w for w in seen.split() if w in {"1", "2", "jobs", "inside", "snapshots"}) == ["1", "inside", "jobs"]


@as_root
def test_the_home_of_the_services_user_is_hidden(bench: Any, mounts: Mounts, tmp_path: Path, monkeypatch: Any) -> None:
    home = Path("/opt") / f"schedulearn-test-{os.getpid()}"
    home.mkdir(mode=0o755)
    try:
        (home / "key").write_text("secret")
        monkeypatch.setenv("HOME", str(home))
        assert said(bench, f"ls -A {home}; cat {home}/key || echo hidden").endswith("hidden\n")
    finally:
        (home / "key").unlink()
        home.rmdir()


@as_root
def test_processes_of_others_are_hidden(bench: Any, mounts: Mounts) -> None:
    if not mounts.hide_processes:
        pytest.skip("this machine cannot hide processes")
    seen = said(bench, f"test ! -e /proc/1; test ! -e /proc/{os.getpid()}; test -e /proc/$$/status && echo well")
    assert seen == "well\n"


@as_root
def test_the_services_own_python_is_there_wherever_it_lies(bench: Any, mounts: Mounts) -> None:
    """Also below a home that nobody else may enter; and it cannot be changed."""
    code = "import sys, schedulearn.job; print(sys.prefix); open(sys.prefix + '/x', 'w')"
    launch = bench.launch((Path(sys.executable).name, "-c", code), uid=UID, gid=UID, spec={"env": {"PATH": "/nowhere"}})
    assert bench.run(launch).exit_code == 1
    seen = bench.output(launch).decode()
    assert seen.startswith(sys.prefix)
    assert "Read-only file system" in seen or "Permission denied" in seen


@as_root
def test_a_data_folder_that_nobody_else_may_enter(bench: Any, mounts: Mounts) -> None:
    bench.root.chmod(0o700)
    assert said(bench, "echo x > $SCHEDULEARN_CHECKPOINT_DIR/c; echo x > f; cat f") == "x\n"


@as_root
@pytest.mark.parametrize("below", ["/opt", "/var/tmp"])  # beside what is covered, and in it
def test_a_data_folder_behind_a_link(bench: Any, mounts: Mounts, below: str) -> None:
    link, folder = Path(below) / f"schedulearn-test-{os.getpid()}", bench.root
    link.symlink_to(folder)
    try:
        bench.root = link
        assert said(bench, "echo x > $SCHEDULEARN_CHECKPOINT_DIR/c; echo x > f; cat f; ls -A $PWD/../..") == "x\n1\n"
    finally:
        bench.root = folder
        link.unlink()


@as_root
def test_it_cannot_be_undone(bench: Any, mounts: Mounts) -> None:
    """Mounts that a user namespace inherits are locked: not even its root can take them away."""
    (bench.root / "client.json").write_text("secret")
    (bench.root / "client.json").chmod(0o644)
    places = f"{bench.root} /tmp /proc {bench.paths(bench.launch('')).job.folder}"
    undo = f"for d in {places} {places}; do umount -l $d && echo undone; done; cat {bench.root}/client.json"
    launch = bench.launch(f"umount /tmp; unshare -Urm sh -c '{undo}'; nsenter -t 1 -m id", uid=UID, gid=UID)
    assert not bench.run(launch).ok
    seen = bench.output(launch).decode()
    assert "undone" not in seen
    assert "secret" not in seen


@as_root
def test_a_command_beside_it_sees_the_same(bench: Any, mounts: Mounts) -> None:
    launch = bench.launch("echo mine > /tmp/file; echo ready; exec sleep 1000", uid=UID, gid=UID)
    executor = bench.executor()
    executor.start(launch)
    bench.ready(launch)
    words = f"cat /tmp/file; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; id -u; ls -A {bench.root}/jobs"
    command = executor.exec.run(launch.worker, ["sh", "-c", words])
    out = b"".join(piece for _, piece in command).decode().split()
    assert out == ["mine", "CapBnd:", "0" * 16, "NoNewPrivs:", "1", str(UID), "1"]
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


@as_root
def test_it_does_not_run_if_it_cannot_be_confined(bench: Any, mounts: Mounts, monkeypatch: Any) -> None:
    real = Mounts.view
    broken = lambda *args: {**(real(*args) or {}), "shown": [("/nonexistent", "/tmp/x", False)]}  # noqa: E731
    monkeypatch.setattr(Mounts, "view", broken)
    launch = bench.launch("echo ran", uid=UID, gid=UID)
    outcome = bench.run(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "mounts of its own" in outcome.detail
    assert bench.output(launch) == b""


@as_root
def test_folders_of_an_earlier_attempt_become_its_users(bench: Any) -> None:
    """A job that ran as root, or as another user, and is started again."""
    assert bench.run(bench.launch("echo x > file; echo x > $SCHEDULEARN_CHECKPOINT_DIR/c")).ok
    launch = bench.launch(
        "echo y >> file; echo y >> $SCHEDULEARN_CHECKPOINT_DIR/c; cat file", attempt=2, uid=UID, gid=UID
    )
    assert bench.run(launch).ok
    assert bench.output(launch) == b"x\ny\n"
    assert bench.paths(launch).job.run.stat().st_uid == UID


def test_whom_a_folder_lets_pass(tmp_path: Path) -> None:
    tmp_path.chmod(0o710)
    owner, group = os.geteuid(), os.getegid()
    assert User(owner, 1).may_pass(str(tmp_path))
    assert User(UID, group).may_pass(str(tmp_path))
    assert User(UID, UID, (group,)).may_pass(str(tmp_path))
    assert not User(UID, UID).may_pass(str(tmp_path))


# --- control groups


def test_all_workers_together_leave_the_machine_some_memory(bench: Any, real_cgroups: Cgroups) -> None:
    launch = bench.launch("echo ready; exec sleep 1000")
    executor = bench.executor(cgroups=real_cgroups)
    executor.start(launch)
    bench.ready(launch)
    around = {Path(plan["dir"]).parent for plan in json.loads(bench.paths(launch).launch.read_text())["groups"]}
    files = [folder / name for folder in around for name in ("memory.limit_in_bytes", "memory.max")]
    [held] = [int(file.read_text()) for file in files if file.exists()]
    assert 0 <= permitted.for_all_workers(NODE.capacity["memory"]) - held < 1 << 16
    assert held < NODE.capacity["memory"]
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


@pytest.mark.parametrize(("machine", "left"), [(2e9, 1e8), (1e12, 1 << 30)])
def test_how_much_that_is(machine: float, left: float) -> None:
    assert machine - permitted.for_all_workers(machine) == pytest.approx(left)


# --- what is said of it


def test_what_separates_workers_in_words() -> None:
    words = "; ".join(isolation("70000-99999", has_gpus=False))
    assert "own uids: 70000-99999" in words
    assert ("own mounts: the data folder" in words) == detect_mounts().possible
    assert "GPUs" not in words
    assert "the service's own user" in isolation("", has_gpus=True)[0]


# --- nobody passes for the shim


def running(bench: Any) -> tuple[Any, Launch]:
    launch = bench.launch("echo ready; exec sleep 1000")
    executor = bench.executor()
    executor.start(launch)
    bench.ready(launch)
    return executor, launch


def test_an_end_that_the_shim_did_not_write_is_not_believed(bench: Any) -> None:
    done = bench.launch("true", job=2)
    assert bench.run(done).ok
    genuine = bench.paths(done).exit.read_text()
    forged = json.dumps({**json.loads(genuine), "signature": "0" * 32})
    unsigned = json.dumps({k: v for k, v in json.loads(genuine).items() if k != "signature"})
    _, launch = running(bench)
    paths = bench.paths(launch)
    for text in (genuine, forged, unsigned, json.dumps({**json.loads(genuine), "signature": None}), "[]", "{"):
        paths.exit.write_text(text)
        assert read_end(paths) is None
    paths.exit.write_text(genuine)  # of another worker
    bench.kill_shims()
    outcome = bench.ended(launch)
    assert (outcome.ending, outcome.detail) == (Ending.SIGNALLED, "its supervisor was killed")


def test_the_shims_own_end_replaces_a_forged_one(bench: Any) -> None:
    executor, launch = running(bench)
    bench.paths(launch).exit.write_text('{"exit_code": 0, "at": 1}')
    executor.stop(launch.worker, launch.node, 5)
    assert bench.ended(launch).signal == signal.SIGTERM


def test_an_end_is_believed_by_the_next_life(bench: Any) -> None:
    launch = bench.launch("exit 3")
    bench.run(launch)
    bench.executor().adopt(launch.worker, launch.node)
    assert bench.ended(launch, count=2).exit_code == 3


def test_a_claim_that_the_shim_did_not_write_is_not_believed(bench: Any) -> None:
    executor, launch = running(bench)
    path = bench.paths(launch).claim
    genuine = path.read_bytes()
    claim = json.loads(genuine)
    assert read_claim(path).pid == claim["pid"]
    path.write_text(json.dumps({**claim, "pid": os.getpid()}))
    assert read_claim(path) == Claim()
    path.write_bytes(genuine)
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def test_the_key_is_nowhere_to_be_read(bench: Any) -> None:
    """Not in the shim's arguments and variables, not in a file that others may open."""
    from schedulearn.executors.common.keys import worker_key

    executor, launch = running(bench)
    paths = bench.paths(launch)
    key, shim = worker_key(paths.folder), Path(f"/proc/{read_claim(paths.claim).pid}")
    for text in (shim / "cmdline", shim / "environ", paths.launch):
        assert key not in text.read_bytes()
        assert key.hex().encode() not in text.read_bytes()
    assert stat.S_IMODE((bench.root / "secret").stat().st_mode) == 0o600
    assert worker_key(paths.folder) != worker_key(paths.folder.with_name("1"))
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)
