"""What it costs to share a machine: a look at 50 containers, from an arrival to new limits, and training beside it."""

import json
import os
import signal
import sys
import time
from functools import partial
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import Figures, median
from bench.monitoring import cpu_of
from bench.service import Service, folder, running
from bench.sleepers import NODE, WORKERS, processes, sleeping, wait
from schedulearn.client import Client
from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import Accrual
from schedulearn.core.policies.share.flowcon import FlowCon
from schedulearn.core.policies.sharing import ShareNode, Shares
from schedulearn.core.policies.stages import Memory
from schedulearn.executors.kernel.groups import read_limits
from schedulearn.executors.process.cgroups import made_groups
from schedulearn.service.learn.monitor import EVERY
from schedulearn.service.share.container_monitor import LiveContainerMonitor, WorkLeft
from schedulearn.service.share.machine import SharedMachine
from schedulearn.service.share.snapshots import JobSnapshot, MachineSnapshot
from schedulearn.store import Point, Store

_ITVAL = 20.0  # seconds: FlowCon's usual interval
_ARRIVALS = 10
_PAIRS = 20  # of windows: one with the service, one without
_WINDOW = EVERY  # seconds: each has one look of the monitor, and one of the share loop
_SETTLE = 0.5  # seconds before a window: what was left undone is done

# Trains at full speed, and prints its loss a few times a second. GATE: how far it is, for whoever measures.
_TRAINS = """
import os, time
weights, step, told = [0.0] * 64, 0, 0.0
while True:
    for i in range(64):
        weights[i] += 0.01 * (1.0 - weights[i])
    step += 1
    if time.monotonic() - told > 0.2:
        told = time.monotonic()
        print(f"step {step} loss {0.0 if os.environ.get('FLAT') else -step}", flush=True)
        if "GATE" in os.environ:
            with open(os.environ["GATE"] + ".new", "w") as file:
                file.write(f"{step} {time.monotonic()}")
            os.replace(os.environ["GATE"] + ".new", os.environ["GATE"])
"""


def measure() -> Figures:
    figures = Figures("The share loop")
    with folder() as root:
        _look(figures, root)
    with running() as service, service.client() as client:
        _react(figures, service, client)
    with running() as service, service.client() as client:
        _overhead(figures, service, client)
    return figures


# --- what a look costs


class _Clock:
    """An interval passes with each look."""

    def __init__(self) -> None:
        self.at = time.time()

    def now(self) -> float:
        return self.at


class _Timed:
    """The stage, and how long each of its decisions took."""

    def __init__(self) -> None:
        self._stage, self.seconds = FlowCon(), list[float]()

    def share(self, node: ShareNode, memory: Memory) -> Shares:
        start = time.thread_time()
        answer = self._stage.share(node, memory)
        self.seconds.append(time.thread_time() - start)
        return answer


def _look(figures: Figures, root: Path) -> None:
    with sleeping(root, lambda sink: processes(root, sink)) as (store, executor, workers):
        _looks(figures, store, executor, workers)


def _looks(figures: Figures, store: Store, executor: Any, workers: list[WorkerId]) -> None:
    clock, stage = _Clock(), _Timed()
    monitor = LiveContainerMonitor(NODE.name, store, executor, WorkLeft(store))
    machine = SharedMachine(NODE.name, monitor, executor, clock, lambda _: None)
    machine.follow(stage, "flowcon")
    rows = {worker: store.job(worker.job) for worker in workers}
    machine.tell(
        MachineSnapshot(
            8.0,
            tuple(JobSnapshot(w.job, clock.at, (w,), 1.0, 0.1, Accrual(), row.job) for w, row in rows.items() if row),
        )
    )

    def round_() -> None:
        clock.at += _ITVAL
        for number, worker in enumerate(workers):
            points = [Point(int(clock.at), clock.at, int(clock.at), "loss", 1 / (clock.at % 1e6) + number)]
            store.add_points(worker.job, 1, 0, "report", points)

    round_()
    machine.look()  # where to look is found out once
    whole = cpu_of(machine.look, before=round_)
    figures.add(f"{WORKERS} containers: CPU of one look", whole * 1e3, "ms", against="counters, values, decision")
    figures.add("the decision alone", median(stage.seconds) * 1e3, "ms", against="FlowCon")
    figures.add(f"CPU in all, a look every {_ITVAL:g} s", whole / _ITVAL * 100, "%", aim=2.0)


# --- how soon it reacts


def _job(client: Client, **env: str) -> int:
    command = [sys.executable, "-c", _TRAINS]
    wanted = {"name": "bench", "command": command, "workdir": None, "env": env, "resources": {"cpus": "0.05..2"}}
    number = int(client.submit({**wanted, "grace": 0})["id"])
    wait(lambda: client.job(number)["state"] == "running")
    return number


def _limit(service: Service, job: int) -> float:
    """As the kernel says."""
    worker = service.data / "jobs" / str(job) / "attempts" / "1" / "0"
    return read_limits(made_groups(json.loads((worker / "launch.json").read_text())["groups"])).cpus or 2.0


def _react(figures: Figures, service: Service, client: Client) -> None:
    """A job that learns no more is alone, and free; each arrival limits it at once, and each exit frees it."""
    client.set_policy("flowcon", params={"itval": 1})
    flat = _job(client, FLAT="1")
    wait(lambda: len([e for e in client.job_events(flat) if e["kind"] == "share_list"]) >= 2)
    decided, in_force = [], []
    for _ in range(_ARRIVALS):
        other = _job(client)
        wait(lambda: _limit(service, flat) < 2.0)
        seen = time.time()
        arrived = _at(client, other, "worker_started")
        wait(partial(_decided_since, client, flat, arrived))
        decided.append(_limits(client, flat)[-1] - arrived)
        in_force.append(seen - arrived)
        client.cancel(other)
        wait(lambda: _limit(service, flat) == 2.0)
    client.delete(flat)
    figures.add("from an arrival to the decision, median", median(decided), "s", aim=1.0)
    figures.add("to the limit in force, median", median(in_force), "s", aim=1.0, against="threads move before it")
    figures.add("the slowest", max(in_force), "s")


def _decided_since(client: Client, job: int, moment: float) -> bool:
    return any(at > moment for at in _limits(client, job))


def _limits(client: Client, job: int) -> list[float]:
    return [_seconds(e["at"]) for e in client.job_events(job) if e["kind"] == "share_limit"]


def _at(client: Client, job: int, kind: str) -> float:
    return next(_seconds(event["at"]) for event in client.job_events(job) if event["kind"] == kind)


def _seconds(at: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp()


# --- what it costs training


def _overhead(figures: Figures, service: Service, client: Client) -> None:
    """Two trainings that keep this machine busy, with the service in turn awake and suspended."""
    client.set_policy("flowcon", params={"itval": EVERY, "alpha": 1e-9})  # looks at all, and limits nobody
    gates = [service.data / "one", service.data / "two"]
    jobs = [_job(client, GATE=str(gate)) for gate in gates]
    wait(lambda: all(gate.exists() for gate in gates))
    lost, cpu = [], []
    try:
        for number in range(_PAIRS):
            pair = [_window(service, gates, awake) for awake in ((True, False), (False, True))[number % 2]]
            with_, without = sorted(pair, key=lambda window: not window.awake)
            lost.append((without.speed / with_.speed - 1) * 100)
            cpu.append(with_.cpu / (os.cpu_count() or 1) * 100)
    finally:
        os.kill(service.pid, signal.SIGCONT)
    for job in jobs:
        client.delete(job)
    low, high = _interval(lost)
    spread = f"95 % interval {low:.2f} to {high:.2f} %, single pairs {min(lost):.1f} to {max(lost):.1f} %"
    figures.add("training beside the whole service: time lost, median", median(lost), "%", aim=1.0, against=spread)
    figures.add("CPU of the service meanwhile, of all cores", median(cpu), "%", against="by its own counter")
    figures.note(
        f"{_PAIRS} pairs of neighbouring windows of {_WINDOW:g} s: one with the service, one with it suspended"
    )


class _Window(NamedTuple):
    awake: bool
    speed: float  # steps a second of all trainings together
    cpu: float  # cores that the service used


def _window(service: Service, gates: list[Path], awake: bool) -> _Window:
    os.kill(service.pid, signal.SIGCONT if awake else signal.SIGSTOP)
    time.sleep(_SETTLE)
    before, used, start = [_read(gate) for gate in gates], _cpu(service.pid), time.monotonic()
    time.sleep(_WINDOW)
    after, used, seconds = [_read(gate) for gate in gates], _cpu(service.pid) - used, time.monotonic() - start
    speed = sum((b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(before, after, strict=True))
    return _Window(awake, speed, used / seconds)


def _read(gate: Path) -> tuple[float, float]:
    """How far a training is, and when that was by its own clock."""
    step, at = gate.read_text().split()
    return float(step), float(at)


def _cpu(pid: int) -> float:
    """Core-seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _interval(values: list[float]) -> tuple[float, float]:
    """In which the median lies with 95 %, whatever the distribution: by the sign test."""
    ordered, n, outside, below = sorted(values), len(values), 0, 0.0
    while below + comb(n, outside) / 2**n <= 0.025:
        below += comb(n, outside) / 2**n
        outside += 1
    skipped = max(0, outside - 1)
    return ordered[skipped], ordered[-1 - skipped]
