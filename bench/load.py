"""A service under load: a long queue, many running jobs, many clients, a million reports, a day's worth of short jobs.

After each part one row: how long those clients wait for an answer, and what the service takes. That must not grow with
what is over, and answers must not take longer because the queue is long.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.figures import Figures, percentile, stopwatch, timed
from bench.service import Service, folder
from schedulearn.client import Client
from schedulearn.service.common.clock import SteadyClock
from schedulearn.service.common.config import DataFolder
from schedulearn.service.upkeep.housekeeping import Housekeeper, folder_size
from schedulearn.store import open_store

QUEUED, RUNNING, CLIENTS, REPORTS, SHORT = 20_000, 200, 50, 1_000_000, 8_640  # one every ten seconds, for a day
_REPORTERS = 10  # jobs that share the reports
_ROUND = 1.0  # seconds between two calls of one client, as a page or `top` asks
_LOOK = 15.0  # seconds for one row
_KINDS = ("submit", "ls", "overview", "explain")
_PATIENCE = 3600.0
_ON_A_CORE = 80  # sleeping jobs: each has a hundredth, and short jobs need room beside them
_SMALL: dict[str, Any] = {"workdir": None, "resources": {"cpus": "0.01..2"}}
_REPORT = """
from schedulearn import job
for step in range({count}):
    job.report(step=step, loss=1.0 / (step + 1))
job.flush(600)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """How it stands at one point."""

    after: str
    waits: dict[str, list[float]]  # seconds, of each kind of call
    memory: float  # MB
    descriptors: int
    threads: int
    database: float  # MB, with its log
    files: float  # MB of the jobs' folders

    def text(self) -> str:
        waits = [
            f"{percentile(self.waits[kind], 50) * 1e3:.0f}/{percentile(self.waits[kind], 99) * 1e3:.0f}"
            for kind in _KINDS
        ]
        taken = [self.memory, self.descriptors, self.threads, self.database, self.files]
        return _line(self.after, waits, [f"{one:.0f}" for one in taken])


def _line(after: str, waits: Sequence[str], taken: Sequence[str]) -> str:
    return f"{after:<18}" + "".join(f"{one:>11}" for one in waits) + "".join(f"{one:>7}" for one in taken)


_HEAD = _line("p50/p99 in ms", _KINDS, ["MB", "fds", "thr", "db MB", "files"])


def measure(scale: float = 1.0) -> Figures:
    """All counts times `scale`."""
    queued, running, clients, reports, short = (
        max(4, round(count * scale)) for count in (QUEUED, RUNNING, CLIENTS, REPORTS, SHORT)
    )
    running = min(running, _ON_A_CORE * (psutil.cpu_count() or 1))
    figures = Figures(f"Load: {queued:,} queued, {running:,} running and {short:,} short jobs, {clients} clients")
    with folder() as root:
        service = Service(root / "data")
        try:
            with ExitStack() as stack:
                load = _Load(service, clients, stack, figures)
                load.all(queued, running, reports, short)
        finally:
            service.stop()
        _housekeeping(figures, root / "data")
    return figures


class _Load:
    def __init__(self, service: Service, clients: int, stack: ExitStack, figures: Figures) -> None:
        self._service, self._figures = service, figures
        self._admin = stack.enter_context(service.client())
        self._clients = [stack.enter_context(self._user(f"user{number}")) for number in range(clients)]
        self._rows: list[Row] = []

    def _user(self, name: str) -> Client:
        """Each client is a user of its own: nobody has more under way at once than one may have."""
        self._admin.add_user(name)
        return Client(self._service.url, self._admin.add_token("bench", name)["token"], timeout=300.0)

    def all(self, queued: int, running: int, reports: int, short: int) -> None:
        self._waiting = self._admin.submit({**_SMALL, "command": "true", "resources": self._too_much(0)})["id"]
        self._row("the start")
        self._submit(running, lambda _: {**_SMALL, "command": "sleep 1000000"})
        self._until("running", running)
        self._row(f"{running:,} running")
        for part in (1, 2):
            took = self._submit(
                queued // 2, lambda number: {**_SMALL, "command": "true", "resources": self._too_much(number)}
            )
            self._figures.add_times(f"submitting, {'first' if part == 1 else 'second'} half", took)
            self._row(f"{part * (queued // 2):,} queued")
        self._reports(reports)
        self._row(f"{reports:,} reports")
        for part in range(1, 4):
            self._run_short(short // 3)
            self._row(f"{part * (short // 3):,} short jobs")
        self._conclude()

    def _too_much(self, number: int) -> dict[str, Any]:
        """All cores, so that it waits; and a shape of its own."""
        return {"cpus": psutil.cpu_count() or 1, "memory": 1_000_000 + number}

    def _submit(self, count: int, spec: Callable[[int], dict[str, Any]]) -> list[float]:
        """By all clients at the same time; the seconds of each submission."""
        took: list[float] = []
        numbers = iter(range(count))
        lock = threading.Lock()

        def work(client: Client) -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                with stopwatch(took):
                    client.submit(spec(number))

        self._together(work)
        return took

    def _together(self, work: Callable[[Client], None]) -> None:
        with ThreadPoolExecutor(len(self._clients)) as pool:
            for _ in pool.map(work, self._clients):
                pass

    def _reports(self, count: int) -> None:
        words = ["python3", "-c", _REPORT.format(count=count // _REPORTERS)]
        jobs = [self._admin.submit({**_SMALL, "command": words, "name": "reports"})["id"] for _ in range(_REPORTERS)]
        took = timed(lambda: [self._admin.wait(job, _PATIENCE) for job in jobs])
        states = {self._admin.job(job)["state"] for job in jobs}
        self._figures.add("reports a second", count / took)
        if states != {"succeeded"}:
            self._figures.note(f"jobs that reported are {', '.join(sorted(states))}")

    def _run_short(self, count: int) -> None:
        def run() -> None:
            self._submit(count, lambda _: {**_SMALL, "command": "true", "name": "short", "priority": 50})
            self._until_over("short")

        self._figures.add(f"short jobs a second, {count:,} of them", count / timed(run))

    def _until(self, state: str, count: int) -> None:
        self._wait(lambda: self._admin.jobs(state=[state], limit=1)["total"] >= count)

    def _until_over(self, name: str) -> None:
        self._wait(lambda: self._admin.jobs(state=["active"], name=name, limit=1)["total"] == 0)

    def _wait(self, over: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not over():
            if time.monotonic() > deadline:
                raise RuntimeError("the service does not get on with its work")
            time.sleep(0.5)

    def _row(self, after: str) -> None:
        waits: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        end = time.monotonic() + _LOOK

        def ask(client: Client) -> None:
            rng = random.Random(id(client))
            time.sleep(rng.uniform(0.0, _ROUND))
            while time.monotonic() < end:
                for kind in _KINDS:
                    with stopwatch(waits[kind]):
                        self._ask(client, kind)
                    time.sleep(_ROUND)

        self._together(ask)
        process = psutil.Process(self._service.pid)
        database = sum(file.stat().st_size for file in self._service.data.glob("schedulearn.db*"))
        self._rows.append(Row(
            after, waits, process.memory_info().rss / 1e6, process.num_fds(), process.num_threads(), database / 1e6,
            folder_size(self._service.data / "jobs") / 1e6,
        ))  # fmt: skip
        print(*([_HEAD] if len(self._rows) == 1 else []), self._rows[-1].text(), sep="\n", flush=True)

    def _ask(self, client: Client, kind: str) -> None:
        calls: dict[str, Callable[[], object]] = {
            "submit": lambda: client.submit({**_SMALL, "command": "true", "name": "asked"}),
            "ls": lambda: client.jobs(limit=50),
            "overview": client.overview,
            "explain": lambda: client.explain(self._waiting),
        }
        calls[kind]()

    def _conclude(self) -> None:
        for text in (_HEAD, *(row.text() for row in self._rows)):
            self._figures.note(text)
        first, last = self._rows[1], self._rows[-1]
        self._figures.add("descriptors, at the most", max(row.descriptors for row in self._rows))
        self._figures.add("threads, at the most", max(row.threads for row in self._rows))
        grown = last.memory - self._rows[-3].memory
        self._figures.add(
            "memory at the end", last.memory, "MB", against=f"{last.memory / first.memory:.1f} × as with no queue"
        )
        self._figures.add("memory that two thirds of the short jobs added", grown, "MB")


def _housekeeping(figures: Figures, data: Path) -> None:
    """One round over all that is left, with room for nothing: it comes every ten minutes."""
    with open_store(data / "schedulearn.db") as store:
        keeper = Housekeeper(store, DataFolder(data), SteadyClock(), keep_seconds=1e9, keep_bytes=0)
        figures.add("to look at all files", timed(keeper.note_storage), "s", aim=60.0)
        removed: list[Sequence[Any]] = []
        seconds = timed(lambda: removed.append(keeper.clean()))
        figures.add(f"a round of housekeeping, files of {len(removed[0]):,} jobs removed", seconds, "s", aim=600.0)
        figures.add("files left", folder_size(data / "jobs") / 1e6, "MB")
