"""One decision alone: 10,000 queued and 500 running jobs on 200 nodes of 8 GPUs, for each preset."""

import math
import random
import time

from bench.figures import Figures, timed
from schedulearn.core.control.apply import apply
from schedulearn.core.control.cycle import apply_all, plan, to_each_worker
from schedulearn.core.control.decide import decide
from schedulearn.core.control.forecast import forecast_starts
from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StartAttempt, StopWorker
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec, Preemptible, WorkerResources, Workers
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from schedulearn.core.policies.stages import Policy

NODES, GPUS, RUNNING, QUEUED, FEW = 200, 8, 500, 10_000, 100
_ROUNDS, _LONGEST = 200, 5.0  # decisions of each measurement, and the seconds after which no further one is made


def measure() -> Figures:
    figures = Figures(f"One decision: {QUEUED:,} queued, about {RUNNING} running, {NODES} nodes of {GPUS} GPUs")
    for preset in PRESETS:
        policy = build_policy(preset)
        few, many = (_decisions(policy, _busy_state(policy, queued)) for queued in (FEW, QUEUED))
        figures.add_times(f"{preset}: decide", many, against=few, than=f"with {FEW} queued")
    policy = build_policy()
    state = _busy_state(policy, QUEUED)
    last = max(state.queue, key=lambda job: job.id)
    guess = Estimate(60.0, 600.0, 6000.0)
    forecasts = [timed(lambda: forecast_starts(state, policy, [last], 1.0, lambda _: guess)) for _ in range(3)]
    figures.add("forecast of the last job's start", min(forecasts) * 1e3, "ms")
    return figures


class _GuessedFacts:
    """Durations that follow from the job's number in no order. Implements `policies.stages.Facts`."""

    steady = True

    def remaining(self, job: Job, now: float) -> float:
        return max(0.0, self.duration(job) - job.ran.at(now))

    def estimate(self, job: Job, now: float) -> Estimate | None:
        left = self.remaining(job, now)
        return Estimate(left, left, left)

    def duration(self, job: Job) -> float:
        return 60.0 * (1 + job.id * 7919 % 9973)

    def speedup(self, job: Job) -> SpeedUp:
        return assumed_speedup(job.shape.workers.max)

    def restart_cost(self, job: Job) -> float:  # noqa: ARG002
        return 10.0

    def locality_penalty(self, job: Job) -> float:  # noqa: ARG002
        return 0.1

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:  # noqa: ARG002
        return None


def _decisions(policy: Policy, state: State) -> list[float]:
    took: list[float] = []
    end = time.perf_counter() + _LONGEST
    while len(took) < _ROUNDS and time.perf_counter() < end:
        took.append(timed(lambda: decide(policy, state.queue, state.ledger, state.adjustable, 1.0, state.memory)))
    return took


def _busy_state(policy: Policy, queued: int) -> State:
    """Every GPU is taken by those whom the policy wants to run; then one job ends, so that there is something to do."""
    rng = random.Random(1)
    state = State(policy.order, _GuessedFacts(), [_node(n) for n in range(NODES)])
    full = [_job(n, workers) for n, workers in enumerate(_sizes(rng), 1)]
    apply_all(state, [ev.Submitted(0.0, job) for job in full], 0.0)
    plan(state, policy, 0.0)
    _settle(state, policy)
    for n in range(queued):
        apply(state, ev.Submitted(0.0, _job(RUNNING * 10 + n, rng.choice((1, 2, 4, 8, 16)))))
    plan(state, policy, 0.0)
    _settle(state, policy)
    for worker in state.attempts[min(state.attempts)].workers:
        apply(state, ev.WorkerExited(1.0, worker.id, Outcome(Ending.EXITED, exit_code=0)))
    return state


def _settle(state: State, policy: Policy) -> None:
    """Carry out what was decided, and decide again, until nothing changes any more."""
    while commands := list(to_each_worker(state, state.take_changes().commands)):
        for command in commands:
            if isinstance(command, StartAttempt):
                for worker in state.attempts[command.attempt.job].workers:
                    apply(state, ev.WorkerStarted(0.0, worker.id))
            elif isinstance(command, StopWorker):
                apply(state, ev.WorkerExited(0.0, command.worker, Outcome(Ending.SIGNALLED, signal=15)))
        plan(state, policy, 0.0)


def _sizes(rng: random.Random) -> list[int]:
    """Workers of the running jobs, one GPU each: together all that there are."""
    sizes, left = [], NODES * GPUS
    while left:
        sizes.append(min(left, rng.choice((1, 2, 2, 4, 4, 4, 8))))
        left -= sizes[-1]
    return sizes


def _node(number: int) -> Node:
    name = f"node{number:03}"
    devices = tuple(Device(DeviceId(f"{name}-{i}"), model="A100") for i in range(GPUS))
    return Node(NodeName(name), capacity=Resources(cpus=64, gpus=GPUS, memory=512e9), devices=devices)


def _job(number: int, workers: int) -> Job:
    counts = Workers(max(1, workers // 2), workers, 2 * workers)
    each = WorkerResources(gpus=1, cpus_min=4, cpus_max=4)
    spec = JobSpec("train", "true", workers=counts, resources=each, preemptible=Preemptible.YES)
    return Job(JobId(number), spec, "bench", submitted_at=0.0, queued_at=0.0)
