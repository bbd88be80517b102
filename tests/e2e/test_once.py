"""A submission makes one job, whatever becomes of its answer; and the audit log over a real service."""

import threading
from pathlib import Path

from schedulearn.client import Client
from support.jobs import ended, in_state, spec, submit
from support.proxy import lossy_proxy
from support.service import Service, run_cli


def test_the_command_line_submits_once_though_answers_are_lost(
    client: Client, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    with lossy_proxy(service.url, 2) as (proxy, url):
        env = {"SCHEDULEARN_URL": url, "SCHEDULEARN_TOKEN": service.token}
        done = run_cli("submit", "--name", "lost", "--cpus", "0.01..2", "--", "true", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert proxy.lost == [201, 201]
    [job] = client.jobs(name="lost")["jobs"]
    assert f"Job {job['id']} " in done.stdout
    assert ended(client, job["id"])["state"] == "succeeded"


def test_the_client_submits_once_though_the_service_is_killed(client: Client, service: Service) -> None:
    """kill -9 after the job was taken, before anybody was told; it comes back while the client tries again."""
    back: list[threading.Thread] = []

    def kill() -> None:
        service.kill()
        back.append(threading.Thread(target=service.start))
        back[0].start()

    with lossy_proxy(service.url, 1, kill) as (proxy, url), Client(url, service.token) as far:
        job = far.submit(spec("true", name="killed"))
    back[0].join()
    assert proxy.lost == [201]
    assert [one["id"] for one in client.jobs(name="killed")["jobs"]] == [job["id"]]
    assert ended(client, job["id"])["state"] == "succeeded"


def test_who_did_what_is_written_down(client: Client, service: Service, tmp_path: Path) -> None:
    client.add_user("ann", max_priority=60)
    with service.client(client.add_token("laptop", "ann")["token"]) as ann:
        job = submit(ann, spec("sleep 1000", env={"PASSWORD": "hush"}))
        in_state(ann, job, "running")
        with ann.exec(job, ["echo", "hush"]) as running:
            list(running)
    client.pull(job, None, tmp_path)
    client.cancel(job)
    ended(client, job)
    of_job = list(client.audit(object=f"job {job}"))
    assert [(e["actor"], e["action"], e["owner"]) for e in of_job] == [
        ("admin", "job.cancel", "ann"),
        ("admin", "job.pull", "ann"),
        ("ann", "job.exec", "ann"),
        ("ann", "job.submit", "ann"),
    ]
    assert {e["origin"] for e in of_job} == {"127.0.0.1"}
    told = service.cli("audit", "--user", "ann", "--action", "job", "--since", "1h")
    assert told.returncode == 0, told.stderr
    head, *lines = told.stdout.splitlines()
    assert head.split() == ["TIME", "USER", "FROM", "ACTION", "OBJECT", "OWNER", "DETAILS"]
    assert ["job.exec" in lines[0], "program=echo" in lines[0], "job.submit" in lines[1]] == [True] * 3
    service.restart()
    assert list(client.audit(object=f"job {job}")) == of_job
    everything = service.cli("audit", "--json", "--limit", "1000").stdout
    assert "hush" not in everything
    assert "sl_" not in everything
