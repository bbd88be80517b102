"""The service is killed, stopped and started again; jobs notice nothing, and nothing is lost."""

import os
import signal
from pathlib import Path

import pytest

from schedulearn.client import Client
from support.jobs import ended, in_state, kinds, output, script, spec, submit, until
from support.service import PATIENCE, Service, job_processes, process_state
from support.waiting import wait_until


def supervisor(service: Service, job: int) -> int:
    """Of the job's first worker: the one process whose parent is none of them."""
    pids = job_processes(service.data, f"{job}.1.0")
    (found,) = [pid for pid in pids if parent(pid) not in (*pids, None)]
    return found


def main_process(service: Service, job: int) -> int:
    """The shell or script of the job's first worker."""
    shim = supervisor(service, job)
    (found,) = [pid for pid in job_processes(service.data, f"{job}.1.0") if parent(pid) == shim]
    return found


def parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # one of the worker's short-lived children, which has ended
        return None


def gone(service: Service, job: int) -> None:
    """Nothing of the job's first attempt runs any more; its supervisor ends a moment after it has said so."""
    wait_until(lambda: not job_processes(service.data, f"{job}.1.0"), PATIENCE, f"job {job} is gone")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_running_job_goes_on_and_its_end_arrives_later(
    client: Client, service: Service, tmp_path: Path, how: str
) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec("echo before; " + until(gate, "echo after; exit 3")))
    in_state(client, job, "running")
    process = main_process(service, job)
    getattr(service, how)()
    assert process_state(process) in ("S", "R", "D")
    service.start()
    assert in_state(client, job, "running")["attempt"] == 1
    assert main_process(service, job) == process
    gate.touch()
    done = ended(client, job)
    assert (done["state"], done["exit"]["code"]) == ("failed", 3)
    assert output(client, job) == b"before\nafter\n"
    assert kinds(client, job).count("worker_started") == 1


def test_a_stop_is_an_ordinary_end(client: Client, service: Service) -> None:
    assert service.stop() == 0
    assert not (service.data / "service.json").exists()
    service.start()
    assert service.output().count("token:") == 1, "the token is shown at the very first start only"


def test_a_job_that_ends_while_the_service_is_dead(client: Client, service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec(until(gate, "echo 'loss: 0.5'; exit 4")))
    in_state(client, job, "running")
    service.kill()
    gate.touch()
    gone(service, job)
    service.start()
    done = ended(client, job)
    assert (done["state"], done["exit"]["code"]) == ("failed", 4)
    assert output(client, job) == b"loss: 0.5\n"
    assert done["progress"]["value"] == 0.5


def test_what_is_reported_while_the_service_is_dead_arrives_later(
    client: Client, service: Service, tmp_path: Path
) -> None:
    gate, ready, last = tmp_path / "gate", tmp_path / "ready", tmp_path / "last"
    code = f"""
import os, time
import schedulearn.job as job
def wait(gate):
    while not os.path.exists(gate): time.sleep(0.02)
job.report(step=1, loss=1.0)
wait({str(gate)!r})
for step in range(2, 11): job.report(step=step, loss=1.0 / step)
open({str(ready)!r}, "w").close()
wait({str(last)!r})
job.report(step=11, loss=0.01)
"""
    job = submit(client, script(code))
    wait_until(lambda: client.metrics(job), PATIENCE, "the first report is there")
    service.kill()
    gate.touch()
    wait_until(ready.exists, PATIENCE)
    service.start()
    last.touch()
    assert ended(client, job)["state"] == "succeeded"
    (loss,) = client.metrics(job, "loss")
    assert [step for step, _, _ in loss["points"]] == list(range(1, 12))


def test_reports_of_a_job_that_ends_before_the_service_is_back(
    client: Client, service: Service, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    code = f"""
import os, time
import schedulearn.job as job
while not os.path.exists({str(gate)!r}): time.sleep(0.02)
for step in range(1, 6): job.report(step=step, loss=1.0 / step)
"""
    job = submit(client, script(code))
    in_state(client, job, "running")
    service.kill()
    gate.touch()
    gone(service, job)
    service.start()
    assert ended(client, job)["state"] == "succeeded"
    assert [step for step, _, _ in client.metrics(job, "loss")[0]["points"]] == [1, 2, 3, 4, 5]


def test_killed_while_jobs_start(client: Client, service: Service) -> None:
    jobs = [submit(client, spec("echo once >> log; cat log")) for _ in range(6)]
    service.kill()
    service.start()
    for job in jobs:
        assert ended(client, job)["state"] == "succeeded"
        assert output(client, job) == b"once\n"
        assert client.job(job)["attempt"] == 1


def test_killed_while_a_job_stops(client: Client, service: Service) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(1000)"
    job = submit(client, script(code, grace=3))
    assert next(client.logs(job, follow=True)).startswith(b"ready")
    client.cancel(job)
    in_state(client, job, "stopping", "cancelled")  # by now its grace may be over
    service.kill()
    service.start()
    done = ended(client, job)
    assert (done["state"], done["reason"]) == ("cancelled", "cancelled by admin")
    gone(service, job)


def test_killed_while_a_job_is_deleted(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000"))
    in_state(client, job, "running")
    client.delete(job)
    service.kill()
    service.start()
    wait_until(lambda: job not in [j["id"] for j in client.jobs()["jobs"]], PATIENCE)
    gone(service, job)


def test_killed_while_a_job_is_paused(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000; true"))
    in_state(client, job, "running")
    client.pause(job)
    process = main_process(service, job)
    wait_until(lambda: process_state(process) == "T", PATIENCE)
    service.kill()
    service.start()
    in_state(client, job, "paused")
    assert process_state(process) == "T"
    client.resume(job)
    wait_until(lambda: process_state(process) == "S", PATIENCE)
    client.cancel(job)
    assert ended(client, job)["state"] == "cancelled"


def test_a_request_made_just_before_the_end_is_carried_out(client: Client, service: Service) -> None:
    blocked = submit(client, spec("sleep 1000"))
    in_state(client, blocked, "running")
    client.cancel(blocked)
    waiting = submit(client, spec("echo here"))
    service.kill()
    service.start()
    assert ended(client, blocked)["state"] == "cancelled"
    assert ended(client, waiting)["state"] == "succeeded"


def test_a_supervisor_that_is_killed_takes_its_job_along(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000 & sleep 1000"))
    in_state(client, job, "running")
    os.kill(supervisor(service, job), signal.SIGKILL)
    done = ended(client, job)
    assert (done["state"], done["reason"]) == ("failed", "killed by SIGKILL: its supervisor was killed")
    gone(service, job)


def test_events_go_on_after_a_restart_each_once(client: Client, service: Service) -> None:
    first = submit(client, spec("true"))
    ended(client, first)
    events = client.events(after=0, follow=True)
    seen = []
    while not seen or (seen[-1]["job"], seen[-1]["state"]) != (first, "succeeded"):
        seen.append(next(events))
    service.restart()
    second = submit(client, spec("true"))
    while (seen[-1]["job"], seen[-1]["state"]) != (second, "succeeded"):
        seen.append(next(events))
    events.close()  # type: ignore[attr-defined]
    serials = [event["serial"] for event in seen]
    assert serials == sorted(set(serials))
    assert serials == [e["serial"] for e in client.events() if e["serial"] <= serials[-1]]


def test_followed_output_goes_on_after_a_restart(client: Client, service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec("echo one; " + until(gate, "echo two")))
    chunks = client.logs(job, follow=True)
    assert next(chunks) == b"one\n"
    service.restart()
    gate.touch()
    assert b"".join(chunks) == b"two\n"


def test_the_time_limit_goes_on_while_the_service_is_dead(client: Client, service: Service) -> None:
    job = submit(client, spec("sleep 1000", time_limit=1))
    in_state(client, job, "running")
    service.kill()
    service.start()
    assert "time limit" in ended(client, job)["reason"]


def test_no_lease_is_left(client: Client) -> None:
    wait_until(lambda: not client.jobs(state=["active"])["jobs"], PATIENCE)
    (node,) = client.nodes()
    assert node["jobs"] == []
    assert node["free"] == {k: v - node["reserved"].get(k, 0) for k, v in node["capacity"].items()}
