"""A live run and a simulated run of one workload decide the same, in the same order."""

import random
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.control.cycle import next_wake
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import Simulation
from schedulearn.lab.sim.model import JobModel, SpecMaker
from schedulearn.lab.traces.types import TraceJob, Workload
from schedulearn.service.common.config import DataFolder
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import open_store
from support.builders import KILLED, OK
from support.clock import HandClock
from support.scheduling import Bench

PARAMS = {"gandiva": {"quantum": 240.0}}  # still hundreds of turns
Step = tuple[float, str, int]  # (time, what, job)


class Logged(Simulation):
    """Writes down what is started, stopped and ended, and when there was anything to think about."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.steps: list[Step] = []
        self.times: set[float] = set()

    def step(self, now: float) -> None:
        self.times.add(now)
        super().step(now)

    def _start(self, job: Job, now: float) -> None:
        self.steps.append((now, "start", job.id))
        super()._start(job, now)

    def _stop(self, job: Job, now: float, outcome: Outcome) -> None:
        self.steps.append((now, "stop", job.id))
        super()._stop(job, now, outcome)

    def _suspend(self, job: Job, now: float) -> None:
        self.steps.append((now, "pause", job.id))
        super()._suspend(job, now)

    def _go_on(self, job: Job, now: float) -> None:
        self.steps.append((now, "resume", job.id))
        super()._go_on(job, now)

    def _end(self, model: JobModel, now: float) -> None:
        self.steps.append((now, "end", model.job.id))
        super()._end(model, now)


class Live:
    """The service's scheduler with a real store; its workers end when the simulated ones do."""

    def __init__(self, folder: Path, preset: str) -> None:
        self.steps: list[Step] = []
        self.clock = HandClock()
        self.zero = self.clock.now()
        store = open_store(folder / "live.db")
        store.add_user("ann", "user")
        store.set_setting("policy", {"preset": preset, "stages": {}, "params": PARAMS.get(preset, {})})
        self.bench = Bench(store, DataFolder(folder), self.clock, *parse_cluster("2x2"))

    def at(self, now: float, arrivals: list[TraceJob], ends: list[int], specs: SpecMaker) -> None:
        self.clock.pass_time(self.zero + now - self.clock.now())
        for job in ends:
            self.steps.append((now, "end", job))
            self._exit(job, OK)
        for trace in arrivals:
            self.bench.store.add_job(specs.spec(trace), "ann", self.clock.now(), "submitted")
        while True:
            calls = self.bench.cycle()
            wake_at = next_wake(self.bench.scheduler.state)
            if not calls and (wake_at is None or wake_at > self.clock.now()):
                return
            self._obey(now, calls)

    def _obey(self, now: float, calls: list[tuple[object, ...]]) -> None:
        seen: set[tuple[str, int]] = set()
        for what, worker, *_ in calls:
            job = int(str(worker).split(".")[0])
            if (str(what), job) not in seen:
                self.steps.append((now, str(what), job))
                seen.add((str(what), job))
            if what == "start":
                self.bench.executor.started(str(worker), self.clock.now())
            elif what == "pause":
                self.bench.executor.paused(str(worker), self.clock.now())
            elif what == "stop":
                self.bench.exited(str(worker), KILLED)

    def _exit(self, job: int, outcome: Outcome) -> None:
        for worker in self.bench.scheduler.state.attempts[JobId(job)].running:
            self.bench.exited(str(worker.id), outcome)


@pytest.mark.parametrize("preset", ["fifo", "round-robin", "tiresias", "gandiva", "elastic-fifo", "ffdl"])
def test_the_same_decisions_in_the_same_order(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveFacts, "restart_cost", lambda *_: 0.0)  # as in the simulation
    rng = random.Random(7)
    traces = [
        TraceJob(str(i), float(rng.randint(0, 300)), float(rng.randint(5, 4000)), gpus, workers=(1, 2 * gpus))
        for i, gpus in enumerate(rng.choices([1, 2, 3, 4], k=25))
    ]
    traces.sort(key=lambda job: job.arrival)
    policy = build_policy(preset, params=PARAMS.get(preset))
    simulated = Logged(Workload("random", traces), parse_cluster("2x2"), policy)
    simulated.run()
    live, specs = Live(tmp_path, preset), SpecMaker(elastic=policy.allocate.elastic)
    for now in sorted(simulated.times):
        ends = [job for at, what, job in simulated.steps if at == now and what == "end"]
        live.at(now, [job for job in traces if job.arrival == now], ends, specs)
    assert live.steps == simulated.steps
