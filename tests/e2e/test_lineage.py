"""A new or an older database on a data folder with jobs of its own: each job is what it is, and runs once."""

import shutil
from pathlib import Path

from schedulearn.store import open_store
from support.jobs import ended, in_state, output, spec, submit, until
from support.service import Service, job_processes


def test_a_new_database_takes_no_old_result_for_a_new_job(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Service(tmp_path / "data") as service:
        with service.client() as client:
            assert submit(client, spec("echo old")) == 1
            ended(client, 1)
            running = submit(client, spec(until(gate, "echo old, too")))
            in_state(client, running, "running")
        old = job_processes(service.data, "2.1.0")
        service.kill()
        for file in service.data.glob("schedulearn.db*"):
            file.unlink()
        (service.data / "client.json").unlink()
        service.start()
        with service.client() as client:
            for number in (1, 2):
                assert submit(client, spec(f"echo new {number}")) == number
                assert ended(client, number)["state"] == "succeeded"
                assert output(client, number) == f"new {number}\n".encode()
        assert "jobs of another database" in service.output()
        kept = service.data / "jobs.old-1" / "1" / "attempts" / "1" / "0" / "log"
        assert b"old" in b"".join(file.read_bytes() for file in kept.iterdir() if file.is_file())
        assert set(old) & set(job_processes(service.data)), "what ran goes on"  # its `sleep` is another one each time


def test_an_older_database_runs_new_jobs_under_new_numbers(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Service(tmp_path / "data") as service:
        with service.client() as client:
            before = submit(client, spec(f"echo once >> {tmp_path}/ran; " + until(gate)))
            in_state(client, before, "running")
            with open_store(service.data / "schedulearn.db") as store:
                store.backup(tmp_path / "backup.db")
            after = submit(client, spec("echo after the backup"))
            ended(client, after)
        service.kill()
        for file in service.data.glob("schedulearn.db*"):
            file.unlink()
        shutil.copy(tmp_path / "backup.db", service.data / "schedulearn.db")
        service.start()
        with service.client() as client:
            new = submit(client, spec("echo new"))
            assert new > after
            assert ended(client, new)["state"] == "succeeded"
            assert output(client, new) == b"new\n"
            gate.touch()
            assert ended(client, before)["attempt"] == 1, "it is found again"
        assert (tmp_path / "ran").read_text() == "once\n"
