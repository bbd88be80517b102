"""What a worker finds when it starts: its code, its environment, its files, its user."""

import hashlib
import io
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.ids import DeviceId, JobId
from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.spec import WorkerResources, Workers
from schedulearn.executors.process.view import NO_MOUNTS

PRINT_ENV = "import json, os; print(json.dumps(dict(os.environ)))"
SOMEBODY = 54321  # a user without an entry in the system's list


def entry(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=target)


def archive(folder: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    path = folder / "snapshot.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return path


def environment(bench: Any, **more: Any) -> dict[str, str]:
    launch = bench.python(PRINT_ENV, **more)
    assert bench.run(launch).ok
    env: dict[str, str] = json.loads(bench.output(launch))
    return env


# --- the snapshot


def test_the_run_folder_is_filled_once(bench: Any, tmp_path: Path) -> None:
    snapshot = archive(
        tmp_path,
        entry("./train.sh", b"#!/bin/sh\ncat data/x alias; echo more >> data/x\n", mode=0o755),
        entry("data", type=tarfile.DIRTYPE, mode=0o755),
        entry("data/x", b"first\n"),
        link("data/up", "../train.sh"),
        link("alias", "data/x"),
        link("same", "data/x", tarfile.LNKTYPE),
    )
    for job_rank, expected in enumerate([b"first\nfirst\n", b"first\nmore\nfirst\nmore\n"]):
        launch = bench.launch("./train.sh", rank=job_rank, snapshot=snapshot)
        assert bench.run(launch).ok
        assert bench.output(launch) == expected


def test_a_missing_snapshot(bench: Any, tmp_path: Path) -> None:
    launch = bench.launch("true", snapshot=tmp_path / "0123.tar.gz")
    outcome = bench.run(launch)
    assert (outcome.ending, outcome.detail) == (Ending.NOT_STARTED, "the snapshot of the project is missing")
    assert not bench.paths(launch).job.run.exists()


@pytest.mark.parametrize("data", [b"", b"this is no archive", b"\x1f\x8b\x08\0\0\0\0\0\0\0broken"])
def test_a_damaged_snapshot(bench: Any, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(data)
    outcome = bench.run(bench.launch("true", snapshot=path))
    assert outcome.ending is Ending.NOT_STARTED
    assert "damaged" in outcome.detail


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../outside", b"x")],
        [entry("a/../../outside", b"x")],
        [entry("/outside", b"x")],
        [link("a", "/etc")],
        [link("a", "../outside")],
        [link("a/b", "../../outside")],
        [link("a", "."), entry("a/x", b"x")],
        [link("a", "b"), entry("a", b"x")],
        [link("a", "b", tarfile.LNKTYPE)],
        [link("a", "/etc/passwd", tarfile.LNKTYPE)],
        [entry("a", type=tarfile.FIFOTYPE)],
        [entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    ],
    ids=lambda entries: f"{entries[-1][0].name} {entries[0][0].linkname}",
)
def test_path_tricks_are_refused(bench: Any, tmp_path: Path, entries: Any) -> None:
    launch = bench.launch("true", snapshot=archive(tmp_path, entry("good", b"x"), *entries))
    outcome = bench.run(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "the snapshot is refused" in outcome.detail
    job = bench.paths(launch).job
    assert not job.run.exists()
    assert not (job.folder / "outside").exists()
    assert not (job.folder / "run.tmp").exists()


# --- the environment


def test_what_every_job_sees(bench: Any) -> None:
    env = environment(bench, job=17, url="http://127.0.0.1:1", token="sl_secret", spec={"env": {"LR": "0.1"}})
    folder = bench.root / "jobs" / "17"
    worker = folder / "attempts" / "1" / "0"
    expected = {
        "LR": "0.1",
        "PATH": os.environ["PATH"],
        "PYTHONUNBUFFERED": "1",
        "SCHEDULEARN_JOB_ID": "17",
        "SCHEDULEARN_ATTEMPT": "17.1",
        "SCHEDULEARN_WORKER": "17.1.0",
        "SCHEDULEARN_URL": "http://127.0.0.1:1",
        "SCHEDULEARN_TOKEN_FILE": str(worker / "token"),
        "SCHEDULEARN_CHECKPOINT_DIR": str(folder / "checkpoint"),
        "SCHEDULEARN_CONTROL": str(worker / "control.json"),
        "SCHEDULEARN_SPOOL": str(worker / "spool.jsonl"),
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert expected.items() <= env.items()
    assert not {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "SCHEDULEARN_READY_FD"} & env.keys()


def test_nothing_of_the_service_leaks(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET", "x")
    assert "AWS_SECRET" not in environment(bench)


def test_what_a_job_with_several_workers_sees(bench: Any) -> None:
    launch = {"rank": 2, "world_size": 3, "local_rank": 1, "master_addr": "10.0.0.1", "master_port": 29400}
    env = environment(bench, spec={"workers": Workers(1, 2, 4)}, **launch)
    expected = {
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": "2",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29400",
    }
    assert expected.items() <= env.items()


def test_devices_and_threads(bench: Any) -> None:
    env = environment(bench, devices=(DeviceId("GPU-1"), DeviceId("GPU-2")), cpu_limit=2.9)
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert env["OMP_NUM_THREADS"] == "2"


def test_who_wins(bench: Any) -> None:
    """The job over the defaults, the service's additions over the job, the contract over all."""
    asked = {"PATH": "/bin", "OMP_NUM_THREADS": "7", "X": "job", "CUDA_VISIBLE_DEVICES": "0", "SCHEDULEARN_JOB_ID": "0"}
    env = environment(bench, spec={"env": asked}, env={"X": "service"}, cpu_limit=0.5)
    assert (env["PATH"], env["OMP_NUM_THREADS"], env["X"]) == ("/bin", "7", "service")
    assert (env["CUDA_VISIBLE_DEVICES"], env["SCHEDULEARN_JOB_ID"]) == ("", "1")


def test_a_variable_that_is_not_utf8(bench: Any) -> None:
    launch = bench.launch('printf %s "$ODD"', spec={"env": {"ODD": "\udcff"}})
    assert bench.run(launch).ok
    assert bench.output(launch) == b"\xff"


def test_the_program_is_found_by_the_jobs_own_path(bench: Any, tmp_path: Path) -> None:
    program = tmp_path / "own-program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    launch = bench.launch(("own-program",), spec={"env": {"PATH": f"{tmp_path}:/bin"}})
    assert bench.run(launch).ok
    assert bench.output(launch) == b"found\n"


# --- files


def test_token_and_control(bench: Any) -> None:
    resources = WorkerResources(memory=10**9)
    launch = bench.launch("true", token="sl_secret", cpu_limit=1.5, world_size=2, spec={"resources": resources})
    assert bench.run(launch).ok
    paths = bench.paths(launch)
    assert paths.token.read_text() == "sl_secret"
    group = {"world_size": 2, "generation": 0, "members": [0, 1]}
    control = {"cpus": 1.5, "threads": 1, "memory": 10**9, **group}
    assert json.loads(paths.control.read_text()) == control
    for secret in (paths.token, paths.launch, paths.spool):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_the_shim_complains_of_nothing(bench: Any) -> None:
    launch = bench.launch("echo hello")
    bench.run(launch)
    assert bench.paths(launch).shim_log.read_text() == ""


def test_forget_removes_what_the_job_made_unwritable(bench: Any) -> None:
    launch = bench.launch("mkdir -p a/b; touch a/b/c; chmod 000 a/b a; ln -s /etc/passwd link; mkfifo pipe")
    executor = bench.executor()
    executor.start(launch)
    bench.ended(launch)
    before = hashlib.sha256(Path("/etc/passwd").read_bytes()).digest()
    executor.forget(JobId(1))
    bench.until(lambda: not list((bench.root / "jobs").iterdir()))
    assert hashlib.sha256(Path("/etc/passwd").read_bytes()).digest() == before


def test_forget_keeps_a_job_that_runs(bench: Any) -> None:
    launch = bench.launch("exec sleep 1000")
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    executor.forget(JobId(1))
    executor.close()  # waits for what was begun
    assert bench.paths(launch).claim.exists()


# --- users

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@as_root
def test_a_job_runs_as_its_user(bench: Any, tmp_path: Path) -> None:
    snapshot = archive(tmp_path, entry("code", b"x"), link("to", "code"), entry("d", type=tarfile.DIRTYPE, mode=0o755))
    command = (
        "id -u; id -g; id -G; stat -c %u . code d; test -O to; cat $SCHEDULEARN_TOKEN_FILE; echo;"
        " echo x > $SCHEDULEARN_CHECKPOINT_DIR/c; echo x >> $SCHEDULEARN_SPOOL; cat $SCHEDULEARN_CONTROL > /dev/null;"
        " echo $HOME"
    )
    launch = bench.launch(f"set -e; {command}", uid=SOMEBODY, gid=54322, snapshot=snapshot, token="sl_x")
    assert bench.run(launch).ok
    uid = str(SOMEBODY)
    assert bench.output(launch).decode().split() == [
        uid,
        "54322",
        "54322",
        uid,
        uid,
        uid,
        "sl_x",
        str(bench.paths(launch).job.run),
    ]


@as_root
@pytest.mark.parametrize("secret", ["launch", "claim", "log"])
def test_a_job_cannot_read_what_is_not_its_own(bench: Any, secret: str) -> None:
    launch = bench.launch("true", uid=SOMEBODY)
    path = getattr(bench.paths(launch), secret)
    launch = bench.launch(f"ls {path}/ || cat {path}", uid=SOMEBODY)
    assert bench.run(launch).exit_code == 1


@as_root
def test_a_job_with_a_user_is_killed_with_its_shim(bench: Any) -> None:
    """A change of user clears the death signal, so it must be set again."""
    launch = bench.launch("exec sleep 1000", uid=SOMEBODY)
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    executor.close()
    bench.until(lambda: len(bench.strays()) == 1)
    (worker,) = bench.strays()
    bench.kill_shims()
    bench.until(lambda: bench.dead(worker))


@as_root
def test_a_data_folder_that_the_user_cannot_enter(bench: Any) -> None:
    """Without mounts of its own, in which its way to its folders is made."""
    bench.root.chmod(0o700)
    outcome = bench.run(bench.launch("true", uid=SOMEBODY), mounts=NO_MOUNTS)
    assert outcome.ending is Ending.NOT_STARTED
    assert outcome.detail.endswith("run: Permission denied")


def test_another_user_without_root(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    outcome = bench.run(bench.launch("true", uid=SOMEBODY))
    assert outcome.ending is Ending.NOT_STARTED
    assert "root" in outcome.detail
