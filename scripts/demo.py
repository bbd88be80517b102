"""`make demo`: a service of its own and eight real training jobs, shown live. Leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from schedulearn.cli.common.out import next_steps, say, say_table
from schedulearn.cli.top import gather
from schedulearn.cli.view.frame import frame
from schedulearn.cli.view.jobs import curve
from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.client import Client, ServiceUnreachable
from schedulearn.wire.words import STATE_STYLE, duration, metric

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LONGEST = 110.0  # seconds; by then something is wrong
UNFINISHED = ("queued", "starting", "running", "paused", "stopping")
EVERY = 0.5  # seconds between two frames on a terminal
EVERY_IN_A_PIPE = 5.0

# name, script, epochs, seconds an epoch, and what else its user asks for
JOBS: list[tuple[str, str, int, float, dict[str, Any]]] = [
    ("sgd-small", "digits_sgd.py", 15, 0.3, {}),
    ("autoencoder", "autoencoder.py", 40, 0.4, {}),
    ("mlp-wide", "digits_mlp.py", 30, 0.4, {}),
    ("forest", "digits_forest.py", 15, 0.4, {}),
    ("sgd-long", "digits_sgd.py", 40, 0.3, {}),
    ("mlp-deep", "digits_mlp.py", 20, 0.4, {}),
    ("urgent", "digits_sgd.py", 12, 0.3, {"priority": 90}),
    ("after-forest", "digits_forest.py", 10, 0.4, {}),
]


def main() -> int:
    console = Console()
    interactive = console.is_terminal
    with service() as client:
        console.print(f"A service of its own answers at [bold]{client.url}[/] (SQLite, plain processes, no GPU).")
        ids = submit(client)
        console.print(f"Look at it, too: [bold]{page_link(client)}[/]", soft_wrap=True)
        console.print(f"{len(ids)} real training jobs are submitted; they share this machine's cores.\n")
        watch(client, console, interactive)
        failed = summary(client, ids)
    say()
    say("The service has stopped and its folder is removed. What to do next (the command is in .venv/bin):")
    next_steps(
        {
            "a service of yours": "schedulearn up --detach",
            "run a script": "schedulearn run -- python train.py",
            "watch": "schedulearn top",
            "compare policies": "schedulearn compare --trace synthetic:philly?jobs=500 --cluster 8x8",
        }
    )
    return 1 if failed else 0


@contextmanager
def service() -> Iterator[Client]:
    """A service on a folder and a port of its own; at the end nothing of it runs or stays."""
    data = Path(tempfile.mkdtemp(prefix="schedulearn-demo-"))
    log = open(data / "service.log", "wb")  # noqa: SIM115 - the service writes to it for as long as it runs
    command = [sys.executable, "-m", "schedulearn.cli", "up", "--data", str(data), "--port", "0"]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    os.environ["SCHEDULEARN_DATA"] = str(data)
    # Jobs run with their caller's PATH: as if this virtual environment had been activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ.pop("SCHEDULEARN_URL", None)
    os.environ.pop("SCHEDULEARN_TOKEN", None)
    try:
        with answering(process, data) as client:
            try:
                yield client
            finally:
                stop_all(client)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        log.close()
        shutil.rmtree(data, ignore_errors=True)


def stop_all(client: Client) -> None:
    """After Ctrl-C or a failure nothing is left running."""
    jobs = client.jobs(state=UNFINISHED)["jobs"]
    for job in jobs:
        client.delete(job["id"])
    deadline = time.monotonic() + 10
    while jobs and unfinished(client) and time.monotonic() < deadline:
        time.sleep(0.05)


def answering(process: "subprocess.Popen[bytes]", data: Path) -> Client:
    """A client, as soon as the service answers."""
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        try:
            client = Client()
            client.health()
            return client
        except ServiceUnreachable:
            time.sleep(0.05)
    raise SystemExit("the service did not start:\n" + (data / "service.log").read_text(errors="replace"))


def page_link(client: Client) -> str:
    """The web page's address, with a code that logs in, once."""
    return f"{client.url}/login?once={client.login_code()['code']}"


def submit(client: Client) -> list[int]:
    ids: dict[str, int] = {}
    for name, script, epochs, pace, more in JOBS:
        command = ["python", script, "--epochs", str(epochs), "--pace", str(pace)]
        spec = {"name": name, "command": command, "resources": {"cpus": 0.5}, "steps": epochs, **more}
        if name.startswith("after-"):
            spec["depends_on"] = [ids[name.removeprefix("after-")]]
        ids[name] = client.submit(spec, EXAMPLES)["id"]
    return list(ids.values())


def watch(client: Client, console: Console, interactive: bool) -> None:
    """Frames until all jobs have ended."""
    end = time.monotonic() + LONGEST
    if interactive:
        link = page_link(client)  # stays on the screen; the one above may have scrolled away, or been used
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while unfinished(client) and time.monotonic() < end:
                height = console.height - 1 - len(f"page: {link}") // console.width
                picture = frame(gather(client), datetime.now(UTC), console.width, height)
                live.update(Group(picture, Text(f"page: {link}", style="dim")), refresh=True)
                time.sleep(EVERY)
        return
    while unfinished(client) and time.monotonic() < end:
        console.print(frame(gather(client), datetime.now(UTC), console.width), "")
        time.sleep(EVERY_IN_A_PIPE)


def unfinished(client: Client) -> int:
    return client.jobs(state=UNFINISHED, limit=1)["total"]


def summary(client: Client, ids: list[int]) -> int:
    """What became of each job; the number of those that did not succeed."""
    jobs = [client.job(i) for i in ids]
    columns = (Column("JOB", right=True), Column("NAME"), Column("STATE"), Column("WAITED", right=True))
    columns += (Column("RAN", right=True), Column("LOSS", right=True), Column("CURVE", need=70))
    say_table(columns, [_ended(job) for job in jobs])
    return sum(job["state"] != "succeeded" for job in jobs)


def _ended(job: Any) -> Row:
    state = Cell(job["state"], STATE_STYLE.get(job["state"], ""))
    waited, ran = duration(job["wait_seconds"]), duration(job["run_seconds"])
    return (str(job["id"]), job["name"], state, waited, ran, metric(job), curve(job, 24))


if __name__ == "__main__":
    sys.exit(main())
