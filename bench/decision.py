"""One decision alone: 10,000 queued and 500 running jobs on 200 nodes of 8 GPUs, for each preset."""

import random

from bench.figures import Figures, timed
from schedulearn.control.cycle import run_cycle
from schedulearn.control.decide import decide
from schedulearn.control.forecast import forecast_start
from schedulearn.control.state import State
from schedulearn.domain import events as ev
from schedulearn.domain.ids import DeviceId, JobId, NodeName
from schedulearn.domain.job import Job
from schedulearn.domain.node import Device, Node
from schedulearn.domain.resources import Resources
from schedulearn.domain.spec import JobSpec, WorkerResources, Workers
from schedulearn.domain.states import JobState
from schedulearn.estimate.remaining import Estimate
from schedulearn.policies.presets import PRESETS, build_policy
from schedulearn.policies.stages import Policy

NODES, GPUS, RUNNING, QUEUED, FEW = 200, 8, 500, 10_000, 100
_ROUNDS = 200


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
    forecasts = [timed(lambda: forecast_start(state, policy, last, 1.0, {}, lambda _: guess)) for _ in range(3)]
    figures.add("forecast of the last job's start", min(forecasts) * 1e3, "ms")
    return figures


def _decisions(policy: Policy, state: State) -> list[float]:
    return [timed(lambda: decide(policy, state.queue, state.ledger, 1.0, {})) for _ in range(_ROUNDS)]


def _busy_state(policy: Policy, queued: int) -> State:
    """Every GPU is taken by jobs of a few sizes; then one job ends, so that there is something to decide."""
    rng = random.Random(1)
    state = State(policy.order, [_node(n) for n in range(NODES)])
    full = [_job(n, workers) for n, workers in enumerate(_sizes(rng), 1)]
    decision = run_cycle(state, policy, [ev.Submitted(0.0, job) for job in full], 0.0, {})
    waiting = [_job(RUNNING * 10 + n, rng.choice((1, 2, 4, 8, 16))) for n in range(queued)]
    for job in waiting:
        state.jobs[job.id] = job
        state.queue.add(job, 0.0)
    ended = next(grant.job for grant in decision.grants if state.jobs[grant.job].shape.workers.want == 2)
    for worker in state.attempts[ended].workers:
        state.ledger.release(worker.id)
    del state.attempts[ended]
    state.jobs[ended].state = JobState.SUCCEEDED
    return state


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
    counts = Workers(workers, workers, workers)
    spec = JobSpec("train", "true", workers=counts, resources=WorkerResources(gpus=1, cpus_min=4, cpus_max=4))
    return Job(JobId(number), spec, "bench", submitted_at=0.0, queued_at=0.0)
