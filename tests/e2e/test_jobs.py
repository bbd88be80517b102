"""Jobs on a real service, from the submission to the end."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import ApiError, Client, NoSuchJob
from support.jobs import SMALL, ended, in_state, kinds, output, script, spec, submit, until
from support.service import PATIENCE, Service, job_processes, process_state
from support.waiting import wait_until


def gone(service: Service, job: int) -> None:
    """Nothing of the job's first attempt runs any more."""
    wait_until(lambda: not job_processes(service.data, f"{job}.1.0"), PATIENCE, f"job {job} is gone")


def test_a_job_and_all_that_is_known_of_it(client: Client, service: Service) -> None:
    code = "print('step 1 loss: 0.5'); print('step 2 loss: 0.25'); open('model.pt', 'w').write('weights')"
    job = submit(client, script(code, name="mnist", steps=2))
    done = ended(client, job)
    assert (done["state"], done["exit"]["code"], done["exit"]["text"]) == ("succeeded", 0, "finished")
    assert (done["progress"]["step"], done["progress"]["value"]) == (2, 0.25)
    assert output(client, job) == b"step 1 loss: 0.5\nstep 2 loss: 0.25\n"
    (loss,) = client.metrics(job, "loss")
    assert [(step, value) for step, value, _ in loss["points"]] == [(1, 0.5), (2, 0.25)]
    assert kinds(client, job) == ["submitted", "start", "worker_started", "started", "worker_exited", "succeed"]
    (attempt,) = client.attempts(job)
    assert attempt["ended_at"]
    told = service.cli("describe", str(job))
    assert told.returncode == 0
    assert all(word in told.stdout for word in ("mnist", "succeeded", "submitted by admin", "loss"))


def test_what_a_job_reports_itself(client: Client) -> None:
    code = "import schedulearn.job as job\nfor i in range(3): job.report(step=i, loss=1.0 / (i + 1), acc=0.5)"
    job = submit(client, script(code))
    assert ended(client, job)["progress"]["step"] == 2
    assert {s["name"]: s["count"] for s in client.metrics(job)} == {"loss": 3, "acc": 3}


def test_output_is_followed_to_the_end(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec("echo first; " + until(gate, "echo last")))
    chunks = client.logs(job, follow=True)
    assert next(chunks) == b"first\n"
    gate.touch()
    assert b"".join(chunks) == b"last\n"
    assert client.job(job)["state"] in ("running", "succeeded")
    assert ended(client, job)["state"] == "succeeded"


def test_output_that_is_no_text_comes_byte_for_byte(client: Client, service: Service) -> None:
    data = bytes(range(256)) * 4
    job = submit(client, script(f"import sys; sys.stdout.buffer.write(bytes({list(data)}))"))
    assert ended(client, job)["state"] == "succeeded"
    assert output(client, job) == data
    assert service.cli("logs", str(job)).returncode == 0


def test_a_job_that_prints_without_end_stays_within_its_cap_and_disturbs_nobody(
    client: Client, service: Service, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    code = f"""
import os, sys
block, count = b"x" * 999 + b"\\n", 0
while count < 100_000 or not os.path.exists({str(gate)!r}):
    sys.stdout.buffer.write(block)
    count += 1
print("loss: 0.125")
"""
    job = submit(client, script(code))
    in_state(client, job, "running")
    for _ in range(4):
        assert job in [one["id"] for one in client.jobs(state=["running"])["jobs"]], "the service answers meanwhile"
    gate.touch()
    assert ended(client, job)["state"] == "succeeded"
    log = service.data / "jobs" / str(job) / "attempts/1/0/log"
    assert sum(file.stat().st_size for file in log.iterdir()) <= 64 << 20
    assert output(client, job, tail=1) == b"loss: 0.125\n"
    assert client.job(job)["progress"]["value"] == 0.125


# --- ends


def test_a_script_that_ignores_sigterm_is_gone_after_its_grace(client: Client, service: Service) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(1000)"
    job = submit(client, script(code, grace=0.5))
    assert next(client.logs(job, follow=True)).startswith(b"ready")
    client.cancel(job)
    done = ended(client, job)
    assert (done["state"], done["reason"]) == ("cancelled", "cancelled by admin")
    assert done["exit"]["signal"] == signal.SIGKILL
    gone(service, job)


def test_a_script_that_saves_when_it_is_told_to_stop_has_the_time(client: Client) -> None:
    code = (
        "import signal, sys, time\n"
        "def save(*_): print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save); print('ready'); time.sleep(1000)"
    )
    job = submit(client, script(code, grace=60))
    assert next(client.logs(job, follow=True)).startswith(b"ready")
    client.cancel(job)
    assert ended(client, job)["state"] == "cancelled"
    assert output(client, job) == b"ready\nsaved\n"


def test_a_script_that_forks_away_is_gone_after_it_is_cancelled(client: Client, service: Service) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: print('away'); time.sleep(1000)\n"
        "    os._exit(0)\n"
        "time.sleep(1000)"
    )
    job = submit(client, script(code))
    assert next(client.logs(job, follow=True)).startswith(b"away")
    assert len(job_processes(service.data, f"{job}.1.0")) >= 3, "the supervisor, the script, and the one that left"
    client.cancel(job)
    assert ended(client, job)["state"] == "cancelled"
    gone(service, job)


def test_deleting_a_running_job_stops_it_at_once_and_forgets_it(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000 & trap '' TERM; echo ready; while true; do sleep 1; done", grace=1000))
    assert next(client.logs(job, follow=True)).startswith(b"ready")
    client.delete(job)

    def forgotten() -> bool:
        try:
            client.job(job)
        except NoSuchJob:
            return True
        return False

    wait_until(forgotten, PATIENCE)
    gone(service, job)
    wait_until(lambda: not (service.data / "jobs" / str(job)).exists(), PATIENCE, "its files are gone")
    deleted = [e for e in client.events() if e["kind"] == "deleted"]
    assert any(f"job {job} " in event["cause"] for event in deleted)


def test_a_finished_job_is_forgotten(client: Client) -> None:
    job = submit(client, spec("true"))
    ended(client, job)
    client.delete(job)
    wait_until(lambda: not client.jobs(name="job")["jobs"] or job not in [j["id"] for j in client.jobs()["jobs"]])
    with pytest.raises(NoSuchJob):
        client.job(job)


def test_the_time_limit_ends_a_job(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000", time_limit=1))
    done = ended(client, job)
    assert (done["state"], done["reason"]) == ("failed", "its time limit of 1 s was reached")
    gone(service, job)


def test_the_time_limit_of_a_running_job_is_changed(client: Client) -> None:
    job = submit(client, spec("sleep 1000"))
    in_state(client, job, "running")
    client.update(job, time_limit=1)
    assert "time limit" in ended(client, job)["reason"]


def test_the_memory_limit_is_told_in_words(client: Client, service: Service) -> None:
    code = "import time\nblock = bytearray(200_000_000)\nfor i in range(0, len(block), 4096): block[i] = 1\n"
    job = submit(client, script(f"{code}time.sleep(1000)", resources={**SMALL, "memory": "64MB"}))
    assert ended(client, job)["state"] == "failed"
    assert "killed by SIGKILL: out of memory (limit 64 MB)" in service.cli("describe", str(job)).stdout


def test_a_command_that_is_not_there_is_told_in_words(client: Client) -> None:
    done = ended(client, submit(client, spec(["no-such-program"])))
    assert done["state"] == "failed"
    assert "command not found: no-such-program" in done["reason"]
    assert ended(client, submit(client, spec("no-such-program")))["reason"] == "exit code 127: command not found"


def test_a_failure_is_tried_again_after_a_while(client: Client, tmp_path: Path) -> None:
    """It fails until it was seen to wait: a test that stands still may miss the first time, which is short."""
    seen = tmp_path / "seen"
    job = submit(client, spec(f"echo again; [ -e '{seen}' ] || exit 3", max_restarts=9))

    def waits() -> Any:
        found = client.job(job)
        return found["reason"] if "It is tried again in" in client.explain(job)["text"] else None

    assert wait_until(waits, PATIENCE, "it waits").startswith("exit code 3; restart ")
    seen.touch()
    done = ended(client, job)
    assert (done["state"], done["attempt"]) == ("succeeded", done["restarts"] + 1)
    causes = [event["cause"] for event in client.job_events(job) if event["kind"] == "requeue"]
    assert causes[0] == "exit code 3; restart 1 of 9 in 5 s"
    assert b"".join(client.logs(job, attempt=1)) == b"".join(client.logs(job, attempt=2)) == b"again\n"


# --- the queue


def test_dependants_wait_and_a_failure_fails_them_visibly(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = submit(client, spec(until(gate, "exit 3"), name="first"))
    second = submit(client, spec("true", depends_on=[first]))
    third = submit(client, spec("true", depends_on=[second]))
    wait_until(lambda: client.job(third)["reason"], PATIENCE)
    assert f"It waits for job {first} (first, " in client.explain(second)["text"]
    gate.touch()
    assert ended(client, third)["reason"] == f"job {second}, which it depends on, failed"
    assert ended(client, second)["reason"] == f"job {first}, which it depends on, failed"
    assert kinds(client, third)[-1] == "fail"


def test_a_dependant_runs_when_what_it_waits_for_has_succeeded(client: Client) -> None:
    first = submit(client, spec("true"))
    second = submit(client, spec("true", depends_on=[first]))
    assert ended(client, second)["state"] == "succeeded"


def test_priority_goes_first_and_explain_says_why_the_others_wait(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cores = client.nodes()[0]["capacity"]["cpus"]
    wait_until(lambda: client.nodes()[0]["free"]["cpus"] == cores, PATIENCE)
    whole = {"cpus": cores}
    blocker = submit(client, spec(until(gate), resources=whole))
    in_state(client, blocker, "running")
    low = submit(client, spec("date +%s%N", resources=whole, priority=10))
    middle = submit(client, spec("date +%s%N", resources=whole))
    high = submit(client, spec("date +%s%N", resources=whole, priority=10))
    client.update(high, priority=90)
    wait_until(lambda: client.explain(high)["position"] == 1, PATIENCE)
    why = client.explain(high)
    assert f"needs {cores:g} cores on one node; the most free on one node is 0 cores" in why["text"]
    assert client.explain(low)["position"] == 3
    gate.touch()
    times = {job: int(output(client, job)) for job in (low, middle, high) if ended(client, job)}
    assert sorted(times, key=lambda job: times[job]) == [high, middle, low]


def test_an_impossible_request_is_refused_with_the_largest_possible(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        client.submit(spec("true", resources={"cpus": 9_999}))
    assert (refused.value.status, refused.value.field) == (422, "resources.cpus")
    assert "at most" in str(refused.value)


# --- pause


def test_a_paused_job_stands_still_and_goes_on(client: Client, service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec("sleep 1000 & echo ready; " + until(gate, "echo on; kill $!")))
    assert next(client.logs(job, follow=True)).startswith(b"ready")
    in_state(client, job, "running")
    client.pause(job)
    in_state(client, job, "paused")

    def states() -> set[str]:
        shims = {int(p.name) for p in Path("/proc").glob("[0-9]*") if b"shim.py" in _words(p)}
        return {process_state(pid) for pid in job_processes(service.data, f"{job}.1.0") if pid not in shims}

    # A child that ended at this very moment stays a zombie until its suspended parent looks at it. A shell whose child
    # was suspended between vfork and exec sleeps (D) until that goes on, and is suspended then.
    wait_until(lambda: states() - {"Z", "D"} == {"T"}, PATIENCE, "the whole tree is suspended")
    gate.touch()
    ran = client.job(job)["run_seconds"]
    assert client.job(job)["run_seconds"] == ran, "a pause does not count as running"
    client.resume(job)
    assert ended(client, job)["state"] == "succeeded"
    assert output(client, job).endswith(b"on\n")


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_waiting_job_is_held_and_released(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    blocker = submit(client, spec(until(gate)))
    job = submit(client, spec("true", depends_on=[blocker]))
    client.pause(job)
    in_state(client, job, "paused")
    gate.touch()
    ended(client, blocker)
    assert client.job(job)["state"] == "paused"
    assert "Resume it" in client.explain(job)["text"]
    client.resume(job)
    assert ended(client, job)["state"] == "succeeded"


def test_a_paused_job_is_cancelled(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000"))
    in_state(client, job, "running")
    client.pause(job)
    in_state(client, job, "paused")
    client.cancel(job)
    assert ended(client, job)["state"] == "cancelled"
    gone(service, job)


# --- files


def test_code_is_taken_as_it_was_when_the_job_was_submitted(client: Client, tmp_path: Path) -> None:
    project, gate = tmp_path / "project", tmp_path / "gate"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text("print('old')")
    (project / ".gitignore").write_text("data/\n*.log\n!kept.log\n")
    for name in ("data/big.bin", "run.log", "kept.log"):
        (project / name).write_text("x")
    command = until(gate, f"{sys.executable} train.py; ls -A; mkdir out; echo weights > out/model.pt")
    job = client.submit(spec(command) | {"workdir": "."}, project)["id"]
    (project / "train.py").write_text("print('new')")
    gate.touch()
    assert ended(client, job)["state"] == "succeeded"
    assert output(client, job).split() == [b"old", b".gitignore", b"kept.log", b"train.py"]
    pulled = client.pull(job, "out", tmp_path / "here")
    assert [p.relative_to(tmp_path / "here") for p in pulled] == [Path("out/model.pt")]
    assert pulled[0].read_text() == "weights\n"
    assert {p.name for p in client.pull(job, None, tmp_path / "all")} >= {"train.py", "model.pt"}


def test_a_path_that_leads_out_of_the_run_folder_is_refused(client: Client, tmp_path: Path) -> None:
    job = submit(client, spec("ln -s /etc escape"))
    ended(client, job)
    for path in ("../../..", "/etc", "escape/passwd"):
        with pytest.raises(ApiError):
            client.pull(job, path, tmp_path)


def test_the_environment_of_a_job(client: Client) -> None:
    job = submit(client, spec("env", env={"LR": "0.1"}))
    ended(client, job)
    seen = dict(line.split("=", 1) for line in output(client, job).decode().splitlines())
    assert seen["LR"] == "0.1"
    assert (seen["SCHEDULEARN_JOB_ID"], seen["SCHEDULEARN_ATTEMPT"]) == (str(job), f"{job}.1")
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert seen["PATH"] == os.environ["PATH"], "the caller's"
    assert Path(seen["SCHEDULEARN_TOKEN_FILE"]).stat().st_mode & 0o777 == 0o600


def test_several_workers_run_side_by_side(client: Client) -> None:
    job = submit(client, spec("echo $RANK of $WORLD_SIZE $MASTER_PORT", workers=2))
    assert ended(client, job)["state"] == "succeeded"
    first, second = output(client, job).split(), output(client, job, worker=1).split()
    assert (first[:3], second[:3]) == ([b"0", b"of", b"2"], [b"1", b"of", b"2"])
    assert first[3] == second[3]


# --- the node


def test_a_drained_node_takes_nothing_new(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = submit(client, spec(until(gate)))
    in_state(client, running, "running")
    name = client.nodes()[0]["name"]
    client.drain(name)
    wait_until(lambda: client.nodes()[0]["state"] == "draining", PATIENCE)
    job = submit(client, spec("true"))
    gate.touch()
    assert ended(client, running)["state"] == "succeeded"
    wait_until(lambda: "no node takes jobs" in client.explain(job)["text"], PATIENCE)
    client.drain(name, False)
    assert ended(client, job)["state"] == "succeeded"


def test_the_policy_is_set_without_a_restart(client: Client) -> None:
    client.set_policy("round-robin", params={"starvation_guard": "5m"})
    wait_until(lambda: client.policy()["preset"] == "round-robin", PATIENCE)
    assert ended(client, submit(client, spec("true")))["state"] == "succeeded"
    assert client.policy()["fault"] is None
    client.set_policy("fifo")
    wait_until(lambda: client.policy()["preset"] == "fifo", PATIENCE)
