"""Jobs that try to freeze or fill the service by what they print, report and leave behind."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from schedulearn.client import ApiError, Client
from support.jobs import ended, in_state, kinds, output, script, spec, submit, until
from support.service import PATIENCE, Service
from support.waiting import wait_until

MANY = "yes $(printf '%0500d' 0 | tr 0 a) | head -n 2000"  # lines of 500 a


def value(client: Client, job: int) -> Any:
    def look() -> Any:
        shown = client.job(job)["progress"]
        return shown and shown["value"]

    return wait_until(look, PATIENCE, f"job {job} has progress")


def peak_memory(service: Service) -> int:
    """The most memory that the service ever had, in bytes."""
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


@pytest.mark.parametrize("pattern", ["a*a*a*a*a*a*(b)", "(?:a+)+(b)", r"(?:a|aa)+b=(\d)"])
def test_a_pattern_that_would_take_for_ever(client: Client, service: Service, tmp_path: Path, pattern: str) -> None:
    gate = tmp_path / "gate"
    hostile = submit(client, spec(f"{MANY}; " + until(gate), metric={"pattern": pattern}))
    usual = submit(client, spec("echo loss: 0.5; " + until(gate)))
    assert value(client, usual) == 0.5, "the output of both was looked at"
    assert client.health()["status"] == "ok"
    service.kill()
    service.start()
    in_state(client, hostile, "running")
    gate.touch()
    assert ended(client, hostile)["state"] == ended(client, usual)["state"] == "succeeded"
    assert "output_unread" not in kinds(client, hostile)


def test_a_pattern_that_cannot_be_linear_is_refused(client: Client) -> None:
    with pytest.raises(ApiError, match=r"metric\.pattern.*no look-around") as refused:
        submit(client, spec("true", metric={"pattern": "(?x)(?:a+) +(b)"}))
    assert refused.value.status == 422


def test_a_pattern_from_before_is_given_up_and_not_the_service(
    client: Client, service: Service, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = submit(client, spec(f"{MANY}; " + until(gate, f"{MANY}; echo loss: 1"), metric={"pattern": "loss: ([0-9])"}))
    in_state(client, job, "running")
    service.kill()
    with sqlite3.connect(service.data / "schedulearn.db") as database:
        (text,) = database.execute("SELECT spec FROM jobs WHERE id = ?", [job]).fetchone()
        old = json.loads(text)
        old["metric"]["pattern"] = "(?x)(?:a+) +(b)"
        database.execute("UPDATE jobs SET spec = ? WHERE id = ?", [json.dumps(old), job])
    database.close()
    service.start()
    wait_until(lambda: "output_unread" in kinds(client, job), PATIENCE, "that is said")
    service.kill()
    service.start()
    gate.touch()
    assert ended(client, job)["state"] == "succeeded"
    assert kinds(client, job).count("output_unread") == 1
    assert output(client, job).endswith(b"loss: 1\n"), "its output is kept as ever"


def test_a_huge_spool_takes_no_memory(client: Client, service: Service) -> None:
    before = peak_memory(service)
    spooled = '{"seq": 1, "at": 1, "step": 7, "values": {"loss": 0.25}}'
    command = f"echo '{spooled}' > $SCHEDULEARN_SPOOL; truncate -s 3G $SCHEDULEARN_SPOOL"
    job = submit(client, spec(command))
    assert ended(client, job)["state"] == "succeeded"
    assert client.job(job)["progress"]["value"] == 0.25, "what is in it was read"
    assert peak_memory(service) - before < 300 << 20


@pytest.mark.parametrize("what", ["ln -sf /dev/zero", "mkfifo"])
def test_a_spool_that_is_no_file(client: Client, what: str) -> None:
    job = submit(client, spec(f"rm -f $SCHEDULEARN_SPOOL; {what} $SCHEDULEARN_SPOOL"))
    ended(client, job)  # as its own user it may not be able to replace the file: then that is how it ends
    assert ended(client, submit(client, spec("true")))["state"] == "succeeded"


REPORTS = """
import json, os, urllib.request
token = open(os.environ["SCHEDULEARN_TOKEN_FILE"]).read().strip()
worker = os.environ["SCHEDULEARN_WORKER"]
address = f"{os.environ['SCHEDULEARN_URL']}/api/v1/attempts/{worker.rpartition('.')[0]}/reports"
for seq in range(3):
    points = [{"seq": seq * 300 + n, "at": 1, "step": 1, "values": {f"m{seq}.{n}.{i}": 1 for i in range(100)}}
              for n in range(300)]
    body = json.dumps({"worker": worker, "points": points}, separators=(",", ":")).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
        print(answer.read().decode())
"""


def test_ninety_thousand_metrics(client: Client) -> None:
    job = submit(client, script(REPORTS))
    assert ended(client, job)["state"] == "succeeded", output(client, job)
    told = [json.loads(line) for line in output(client, job).splitlines()]
    assert [(one["accepted"], one["dropped"]) for one in told] == [(1000, 29_000), (0, 30_000), (0, 30_000)]
    assert len(client.metrics(job, most=10_000)) == 1000
    assert kinds(client, job).count("metrics_full") == 1
