"""Several people on one service that is root, as it is usually started: what a job of one can reach of the others'."""

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import Client
from schedulearn.executors.process.view import detect_mounts
from support.jobs import delete_all, ended, in_state, output, script, spec, submit
from support.service import PATIENCE, Service
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(not detect_mounts().possible, reason="needs root, and mounts of its own for each job")
# Nobody else's: other services of this machine, the demo for one, give out the usual ones.
FIRST = 150_000 + 10_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
UIDS = f"{FIRST}-{FIRST + 9_999}"
EXAMPLES = Path(__file__).parents[2] / "examples"
ELASTIC = """
import json, os, time
from pathlib import Path
seen = None
while not Path("stop").exists():
    now = json.loads(Path(os.environ["SCHEDULEARN_CONTROL"]).read_text())["threads"]
    if now != seen:
        print("threads", now)
        seen = now
    time.sleep(0.02)
"""
SAVING = """
from schedulearn.job import report
import os, time
from pathlib import Path
kept = Path(os.environ["SCHEDULEARN_CHECKPOINT_DIR"], "kept")
if kept.exists():
    report(loss=0.25, step=2)
    print("found", kept.read_text())
else:
    kept.write_text("this")
    report(loss=0.5, step=1)
    print("saved")
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "data", "--uids", UIDS, own_users=True) as running:
        yield running


@pytest.fixture
def admin(service: Service) -> Iterator[Client]:
    if not service.running:
        service.start()
    with service.client() as made:
        yield made
        delete_all(made)


@pytest.fixture
def ann(admin: Client, service: Service) -> Iterator[Client]:
    with person(admin, service, "ann") as made:
        yield made


@pytest.fixture
def bob(admin: Client, service: Service) -> Iterator[Client]:
    with person(admin, service, "bob") as made:
        yield made


def person(admin: Client, service: Service, name: str) -> Client:
    if name not in {user["name"] for user in admin.users()}:
        assert admin.add_user(name)["notes"] == []
    return service.client(admin.add_token("test", name)["token"])


def uid_of(client: Client) -> int:
    """As the service tells it."""
    return int(client.whoami()["runs_as"].removeprefix("uid "))


def said(client: Client, command: str, **more: Any) -> str:
    """What a job writes; it may fail."""
    job = submit(client, spec(command, **more))
    ended(client, job)
    return output(client, job).decode()


def test_each_user_has_a_uid_and_nobody_is_root(admin: Client, ann: Client, bob: Client, service: Service) -> None:
    uids = {client: uid_of(client) for client in (admin, ann, bob)}
    assert len(set(uids.values())) == 3
    assert all(FIRST < uid < FIRST + 100 for uid in uids.values())
    for client, uid in uids.items():
        status = said(client, "id -u; id -g; grep -E 'Cap|NoNewPrivs|Groups' /proc/self/status").split()
        assert status[:2] == [str(uid)] * 2
        assert "NoNewPrivs: 1" in " ".join(status)
        assert [word for word in status if len(word) == 16] == ["0" * 16] * 5
    assert "Warning" not in service.output()
    shown = service.cli("users").stdout
    assert all(f"uid {uid}" in shown for uid in uids.values())


def test_what_it_finds_of_the_service_and_of_others(admin: Client, ann: Client, bob: Client, service: Service) -> None:
    """The administrator's token, the database, another's files, environment and temporary files."""
    theirs = submit(bob, spec("echo secret > file; echo secret > /tmp/file; echo ready; exec sleep 1000"))
    wait_until(lambda: b"ready" in output(bob, theirs), PATIENCE, "bob's job has written its files")
    data = service.data
    mine = submit(ann, spec("sleep 1000"))
    attempt = wait_until(lambda: admin.job(mine)["attempt"], PATIENCE)
    reach = [
        data / name for name in ("client.json", "schedulearn.db", "api.lock", "secret", "service.json", "snapshots")
    ]
    reach += [
        data / "jobs" / str(theirs) / "run" / "file",
        data / "jobs" / str(theirs),
        Path("/tmp/file"),
        Path("/root/.ssh"),
    ]
    looks = "; ".join(f"test -e '{path}' && echo found {path}" for path in reach)
    seen = said(
        ann,
        f"{looks}; ls -A {data} {data}/jobs; cat /proc/*/environ | tr '\\0' '\\n' | grep SCHEDULEARN_JOB_ID | sort -u;"
        " echo own=$SCHEDULEARN_JOB_ID",
    )
    assert attempt
    assert "found" not in seen
    own = seen.split()[-1].partition("=")[2]
    listed = [word for word in seen.split() if word.isdigit()]
    assert listed == [own], "it sees the folder of its own job alone"
    assert {w for w in seen.split() if w.startswith("SCHEDULEARN_JOB_ID")} <= {
        f"SCHEDULEARN_JOB_ID={own}",
        f"SCHEDULEARN_JOB_ID={mine}",  # of the same user
    }


def test_locks_are_nobody_elses(ann: Client, service: Service) -> None:
    """Whoever could lock one would keep the service from starting."""
    said(ann, "true")
    files = [*service.data.glob("*.lock"), service.data / "secret", *service.data.glob("jobs/*/*.lock")]
    assert {"api.lock", "scheduler.lock", "start.lock"} <= {file.name for file in files}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert stat.S_IMODE(service.data.stat().st_mode) == 0o700
    tries = "; ".join(
        f"flock -n {service.data}/{role}.lock true && echo got it" for role in ("api", "scheduler", "start")
    )
    assert "got it" not in said(ann, tries)


def test_a_folder_that_somebody_locks_does_not_keep_the_service_from_starting(service: Service) -> None:
    service.data.joinpath("api.lock").chmod(0o644)  # of an earlier version
    handle = os.open(service.data, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        service.restart()
    finally:
        os.close(handle)
    assert stat.S_IMODE(service.data.joinpath("api.lock").stat().st_mode) == 0o600


def test_real_training_checkpoints_and_files(ann: Client, tmp_path: Path) -> None:
    words = [Path(sys.executable).name, "digits_sgd.py", "--epochs", "3"]
    job = ann.submit({"name": "digits", "command": words, "resources": {"cpus": 1}}, EXAMPLES)["id"]
    done = ended(ann, job)
    assert done["state"] == "succeeded", output(ann, job).decode()
    wait_until(lambda: len(values(ann, job)) == 3, PATIENCE, "the losses of all epochs are there")
    ann.pull(job, None, tmp_path / "pulled")
    assert (tmp_path / "pulled" / "digits_sgd.py").exists()


def test_it_goes_on_from_its_checkpoint_and_reports(ann: Client, service: Service) -> None:
    job = submit(ann, script(SAVING, max_restarts=1, metric={"name": "loss"}))
    wait_until(lambda: b"saved" in output(ann, job), PATIENCE, "it has saved")
    wait_until(lambda: values(ann, job) == [0.5], PATIENCE, "its first report has arrived")
    worker = next(pid for pid in worker_processes(service, job) if uid_of_process(pid) == uid_of(ann))
    os.kill(worker, 9)
    assert ended(ann, job)["state"] == "succeeded"
    assert b"found this" in output(ann, job)
    wait_until(lambda: values(ann, job) == [0.5, 0.25], PATIENCE, "both reports have arrived")


def values(client: Client, job: int) -> list[float]:
    """Of all attempts."""
    return [value for one in client.metrics(job, "loss") for _, value, _ in one["points"]]


def worker_processes(service: Service, job: int) -> list[int]:
    from support.service import job_processes

    return wait_until(lambda: job_processes(service.data, f"{job}.1.0"), PATIENCE)


def uid_of_process(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_commands_beside_it(ann: Client, service: Service) -> None:
    job = submit(ann, spec("echo mine > /tmp/file; echo ready; exec sleep 1000"))
    wait_until(lambda: b"ready" in output(ann, job), PATIENCE, "it runs")
    token = ann_token(service)
    ran = service.cli(
        "exec", str(job), "--", "sh", "-c", f"cat /tmp/file; id -u; ls -A {service.data}/jobs", token=token
    )
    assert ran.stdout.split() == ["mine", str(uid_of(ann)), str(job)], ran.stderr


def ann_token(service: Service) -> str:
    with service.client() as admin:
        return str(admin.add_token("exec", "ann")["token"])


def test_limits_reach_it_while_it_runs(ann: Client) -> None:
    job = submit(ann, script(ELASTIC, resources={"cpus": 1}))
    wait_until(lambda: b"threads 1\n" in output(ann, job), PATIENCE, "it knows its threads")
    ann.update(job, cpus_limit=2)
    wait_until(lambda: b"threads 2\n" in output(ann, job), PATIENCE, "it has read the new ones")


def test_it_outlives_the_service(ann: Client, service: Service) -> None:
    job = submit(ann, spec("echo mine > /tmp/file; until [ -e go ]; do sleep 0.02; done; cat /tmp/file; exit 7"))
    in_state(ann, job, "running")
    service.kill()
    service.start()
    (service.data / "jobs" / str(job) / "run" / "go").touch()
    done = ended(ann, job)
    assert (done["state"], "7" in done["reason"]) == ("failed", True)
    assert output(ann, job) == b"mine\n"


def test_nodes_say_what_is_in_force(admin: Client, service: Service) -> None:
    [node] = admin.nodes()
    words = "; ".join(node["isolation"])
    assert f"own uids: {UIDS}" in words
    assert "own mounts" in words
    assert "no new privileges" in words
    assert "Isolation of local" in service.cli("nodes").stdout


def test_root_only_by_choice_and_it_is_said(admin: Client, service: Service) -> None:
    added = service.cli("users", "add", "boss", "--root")
    assert "run as root, with all rights" in added.stderr
    with person(admin, service, "boss") as boss:
        assert said(boss, "id -u") == "0\n"
    assert "root" in service.cli("users").stdout
    service.restart()
    assert "Warning: Jobs of boss run as root" in service.output()
    service.cli("users", "update", "boss", "--no-root")
    with person(admin, service, "boss") as boss:
        assert said(boss, "id -u") == f"{uid_of(boss)}\n"


def test_all_jobs_as_root_is_said(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as trusting, trusting.client() as client:
        assert "Warning: Jobs run as root (--root-jobs)" in trusting.output()
        assert client.whoami()["runs_as"] == "root"
        assert said(client, "id -u") == "0\n"
        assert "as root" in client.add_user("ann")["notes"][0]
