"""Jobs for tests, in one line each."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedulearn.client import Client, NoSuchJob
from support.service import PATIENCE, SOURCE
from support.waiting import wait_until

SMALL = {"cpus": "0.01..2"}  # many fit at once, and none is slowed down


def spec(command: str | list[str], **more: Any) -> dict[str, Any]:
    """A small job without a working folder."""
    return {"name": "job", "command": command, "workdir": None, "resources": SMALL, "grace": 5, **more}


def script(code: str, **more: Any) -> dict[str, Any]:
    """A job that runs Python."""
    env = {"PYTHONPATH": str(SOURCE), **more.pop("env", {})}
    return spec([sys.executable, "-c", code], env=env, **more)


def until(gate: Path, then: str = "true") -> str:
    """A command that goes on when the test makes the file `gate`."""
    return f"while [ ! -e '{gate}' ]; do sleep 0.02; done; {then}"


def submit(client: Client, job: dict[str, Any]) -> int:
    return client.submit(job)["id"]


def in_state(client: Client, job: int, *states: str) -> Any:
    """The job, once it is in one of these states."""

    def look() -> Any:
        found = client.job(job)
        return found if found["state"] in states else None

    return wait_until(look, PATIENCE, f"job {job} is {' or '.join(states)}")


def ended(client: Client, job: int) -> Any:
    return client.wait(job, timeout=PATIENCE)


def delete_all(client: Client) -> None:
    """Whatever is not over is deleted, and gone: the next test finds the machine free."""
    for job in client.jobs(state=["active"])["jobs"]:
        with suppress(NoSuchJob):  # its test has deleted it, and now it is gone
            client.delete(job["id"])
    wait_until(lambda: not client.jobs(state=["active"])["jobs"], PATIENCE, "no job is left")


def output(client: Client, job: int, **more: Any) -> bytes:
    return b"".join(client.logs(job, **more))


def kinds(client: Client, job: int) -> list[str]:
    """The story of a job, in one word for each event."""
    return [event["kind"] for event in client.job_events(job)]
