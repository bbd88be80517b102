"""The web page: what it adds to the service, and whether memory grows with page loads and with pages left open."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn
from fastapi import FastAPI

from bench.figures import Figures, median
from bench.service import Service, environment, folder

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # where the browser is driven

LOADS, FIRST = 300, 50  # page loads, and after how many of them memory is looked at first
READS = 500  # loads by a program that only reads: no socket ever says that somebody looks at the page
OPEN = 10  # pages at once
# Every page, and a word that is there when it can be read.
PAGES = [
    ("/", "Servers"), ("/jobs", "Submitted"), ("/jobs/1", "Events"), ("/timeline", "In this time"),
    ("/submit", "Command line"), ("/policies", "Current policy"), ("/results", "No report yet"),
]  # fmt: skip
HOUR = 3600  # updates of an open page in an hour
_PACE = 0.15  # seconds between two updates, instead of 1
# The page alone, hurried: an hour of updates in a few minutes.
_HURRIED = f"""
import sys
from schedulearn.dashboard.access import session
from schedulearn.dashboard.common import frame
frame.Frame.keep.__defaults__ = ({_PACE},)
session._FRESH = {0.8 * _PACE}
from schedulearn.cli.main import main
sys.argv = ["schedulearn", "up", "--only", "dashboard", "--url", sys.argv[1], "--port", "0"]
main()
"""


def measure() -> Figures:
    from support.browser import Browser

    figures = Figures("The web page")
    with folder() as root, Browser() as browser:
        _loads(figures, root, browser)
        _reads(figures, root)
        _open(figures, root, browser)
    return figures


def _loads(figures: Figures, root: Path, browser: Any) -> None:
    service = Service(root / "loads")
    with service.client() as client, browser.page() as page:
        client.submit({"command": "echo loss: 0.5", "resources": {"cpus": 0.1}, "workdir": None})
        before = _memory(service.pid)
        start = time.perf_counter()
        page.log_in(f"{service.url}/login?once={client.login_code()['code']}")
        page.wait_for("Servers")
        figures.add("log in and first page, library loaded", time.perf_counter() - start, "s")
        figures.add("memory of the service before the first page (RSS)", before, "MB")
        figures.add("after it", _memory(service.pid), "MB")
        seconds = []
        for n in range(LOADS):
            start = time.perf_counter()
            path, word = PAGES[n % len(PAGES)]
            page.open(service.url + path)
            page.wait_for(word)
            seconds.append(time.perf_counter() - start)
            if n + 1 == FIRST:
                first = _memory(service.pid)
        figures.add("a page load until it can be read, median", median(seconds) * 1e3, "ms")
        figures.add(f"memory after {FIRST} page loads", first, "MB")
        figures.add(f"memory after {LOADS} page loads", _memory(service.pid), "MB")
    service.stop()


def _reads(figures: Figures, root: Path) -> None:
    service = Service(root / "reads")
    with service.client() as client, httpx.Client(base_url=service.url, headers={"Origin": service.url}) as reader:
        reader.post("/login", data={"once": client.login_code()["code"]})
        reader.get("/").raise_for_status()
        figures.add("memory after one load without a socket", _memory(service.pid), "MB")
        for _ in range(READS):
            reader.get("/").raise_for_status()
        figures.add(f"memory after {READS} more", _memory(service.pid), "MB")
    service.stop()


def _open(figures: Figures, root: Path, browser: Any) -> None:
    """Ten pages that are left open while everything changes."""
    with Cluster() as cluster, _page_alone(cluster.url, root / "log") as (url, pid), ExitStack() as windows:
        pages = [windows.enter_context(browser.page()) for _ in range(OPEN)]
        for page in pages:
            page.log_in(f"{url}/login?once=any")
            page.wait_for("Servers")
        _wait(cluster, HOUR // 10)
        memory, heap = _memory(pid), pages[0].heap() / 1e6
        busy, seen = psutil.Process(pid).cpu_times().user, cluster.looks
        _wait(cluster, HOUR + HOUR // 10)
        busy, seen = psutil.Process(pid).cpu_times().user - busy, cluster.looks - seen
        figures.add(f"{OPEN} open pages: memory after {HOUR // 10} updates", memory, "MB")
        figures.add(f"and after {HOUR} more, an hour of them", _memory(pid), "MB")
        figures.add("scripts of one page: memory after the first", heap, "MB")
        figures.add("and after the hour", pages[0].heap() / 1e6, "MB")
        figures.add(f"CPU for one update of all {OPEN} pages", busy / seen * 1e3, "ms")


def _wait(cluster: "Cluster", looks: int) -> None:
    while cluster.looks < looks:
        time.sleep(0.2)


def _memory(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6


@contextmanager
def _page_alone(service: str, log: Path) -> Iterator[tuple[str, int]]:
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _HURRIED, service], stdout=out, stderr=out, env=environment(log)
        )
    try:
        while b"page: " not in log.read_bytes():
            time.sleep(0.1)
        yield log.read_text().partition("page: ")[2].split()[0], process.pid
    finally:
        process.terminate()
        process.wait()


class Cluster:
    """The API of a cluster that is made up: twelve jobs on four servers, and something new at every look."""

    def __init__(self) -> None:
        self.looks = 0
        app = FastAPI()
        app.get("/api/v1/overview")(self.overview)
        app.get("/api/v1/whoami")(lambda: {"name": "ann", "role": "admin", "uid": None, "gid": None})
        app.post("/api/v1/logins/redeem")(lambda: {"id": 1, "token": "sl_any", "user": "ann", "label": "page"})
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> "Cluster":
        self._thread.start()
        while not self._server.started:
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def overview(self) -> dict[str, Any]:
        self.looks += 1
        jobs = [self._job(n + self.looks // 100, "running") for n in range(1, 13)]
        waits = [self._job(n + self.looks // 100, "queued") for n in range(13, 23)]
        return {
            "at": _iso(time.time()), "scheduler": "running", "last_event": self.looks,
            "policy": {"preset": "schedulearn", "stages": {"order": "fifo", "place": "least-work"}, "fault": None},
            "counts": {"running": 12, "queued": 10, "succeeded": self.looks, "failed": 1},
            "nodes": [_node(n, [job["id"] for job in jobs[3 * n : 3 * n + 3]]) for n in range(4)],
            "adjustable": [self._holder(n, job["id"]) for n, job in enumerate(jobs)],
            "running": jobs,
            "waiting": [{"job": job, "why": _why(n, job["id"])} for n, job in enumerate(waits, 1)],
            "finished": [self._job(1000 + self.looks // 10, "succeeded")],
        }  # fmt: skip

    def _job(self, number: int, state: str) -> dict[str, Any]:
        step = (self.looks + 7 * number) % 1000
        curve = [2.0 / (1 + k + (self.looks + number) % 5) for k in range(24)]
        progress = {"step": step, "steps": 1000, "metric": "loss", "value": curve[-1], "spark": curve,
                    "updated_at": _iso(time.time()), "eta_seconds": 1000.0 - step}  # fmt: skip
        return {
            "id": number, "name": f"train-{number}", "user": "ann", "state": state, "reason": "", "priority": 50,
            "attempt": 1, "workers": 1, "placement": [{"worker": f"{number}.1.0", "node": "gpu1", "devices": []}],
            "submitted_at": _iso(0), "started_at": _iso(1), "finished_at": _iso(time.time()), "queued_at": _iso(0),
            "run_seconds": float(step), "exit": None, "progress": progress, "spec": {},
        }  # fmt: skip

    def _holder(self, place: int, job: int) -> dict[str, Any]:
        used = (self.looks + job) % 40 / 10
        return {"worker": f"{job}.1.0", "job": job, "node": f"gpu{place // 3}", "devices": [f"GPU-{place % 3}"],
                "leased": {"cpus": 4, "memory": 8e9, "gpus": 1}, "cpus": used, "memory": int(used * 1e9),
                "cpus_limit": 4.0, "memory_limit": None}  # fmt: skip


def _node(number: int, jobs: list[int]) -> dict[str, Any]:
    devices = [{"id": f"GPU-{n}", "kind": "gpu", "model": "A100", "memory": 40 * 10**9, "outside_use": "",
                "job": jobs[n] if n < len(jobs) else None} for n in range(4)]  # fmt: skip
    amounts = {"cpus": 16.0, "memory": 64e9, "gpus": 4.0}
    leased = {"cpus": 12.0, "memory": 24e9, "gpus": 3.0}
    return {"name": f"gpu{number}", "executor": "docker", "state": "up", "problem": "", "capacity": amounts,
            "leased": leased, "devices": devices, "jobs": jobs}  # fmt: skip


def _why(position: int, job: int) -> dict[str, Any]:
    estimate = {"start_seconds": 60.0 * position, "low": 1.0, "high": 2.0}
    text = f"It needs 4 GPUs on one node; the most free is 1. It is number {position} in the queue."
    return {"job": job, "state": "queued", "text": text, "position": position, "estimate": estimate, "stage": "place"}


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + "Z"
