"""Short ways to say what a test is about; everything else has a default."""

from typing import Any

from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.apply import apply
from schedulearn.core.control.cycle import apply_all, plan, to_each_worker
from schedulearn.core.control.state import Changes, State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Job, Lease
from schedulearn.core.domain.node import Device, Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import Resources
from schedulearn.core.domain.spec import JobSpec, WorkerResources, Workers
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from support.facts import AssumedFacts

OK = Outcome(Ending.EXITED, exit_code=0)
BROKEN = Outcome(Ending.EXITED, exit_code=1)
KILLED = Outcome(Ending.SIGNALLED, signal=9)
LOST = Outcome(Ending.LOST)


def leases_of(state: State) -> dict[WorkerId, Lease]:
    """What workers really hold."""
    workers = [worker for attempt in state.attempts.values() for worker in attempt.workers]
    return {worker.id: lease for worker in workers if (lease := worker.lease)}


def node(name: str, *, cpus: float = 8, gpus: int = 0, memory: float = 64e9, **more: Any) -> Node:
    models = more.pop("models", [""] * gpus)
    devices = tuple(Device(DeviceId(f"{name}-gpu{i}"), model=models[i]) for i in range(gpus))
    return Node(
        NodeName(name),
        capacity=Resources(cpus=cpus, gpus=gpus, memory=memory),
        devices=devices,
        cpus_per_gpu=more.pop("cpus_per_gpu", 0.0),
        **more,
    )


def spec(
    *,
    gpus: int = 0,
    cpus: float = 1,
    cpus_max: float | None = None,
    memory: int | None = None,
    workers: int | tuple[int, int, int] = 1,
    gpu_type: str | None = None,
    **more: Any,
) -> JobSpec:
    counts = Workers(workers, workers, workers) if isinstance(workers, int) else Workers(*workers)
    most = cpus if cpus_max is None else cpus_max
    resources = WorkerResources(gpus=gpus, gpu_type=gpu_type, cpus_min=cpus, cpus_max=most, memory=memory)
    return JobSpec(more.pop("name", "job"), more.pop("command", "true"), workers=counts, resources=resources, **more)


def job(number: int, *, at: float = 0.0, user: str = "ann", **more: Any) -> Job:
    wanted = spec(**more)
    return Job(
        JobId(number),
        wanted,
        user,
        submitted_at=at,
        priority=wanted.priority,
        deadline=wanted.deadline,
        time_limit=wanted.time_limit,
        queued_at=at,
    )


class World:
    """A control loop with a clock that the test moves, and no executor: the test says what happens."""

    def __init__(self, *nodes: Node, policy: str = "fifo", **overrides: Any) -> None:
        self.policy = build_policy(policy, overrides.get("stages"), overrides.get("params"))
        self.state = State(self.policy.order, overrides.get("facts") or AssumedFacts(), nodes)
        self.state.counts_cores = self.policy.counts_cores
        self.now = 0.0
        self.changes = Changes()
        self.commands: list[Any] = []
        self.history: list[Any] = []

    def cycle(self, *events: ev.Event) -> Decision:
        apply_all(self.state, events, self.now)
        decision = plan(self.state, self.policy, self.now) or Decision()
        self.changes = self.state.take_changes()
        self.commands = list(to_each_worker(self.state, self.changes.commands))
        self.history += self.changes.history
        return decision

    def submit(self, *jobs: Job) -> list[int]:
        """Submit, run a cycle, and say which jobs started."""
        decision = self.cycle(*(ev.Submitted(self.now, j) for j in jobs))
        return [grant.job for grant in decision.grants]

    def started(self, number: int) -> None:
        """All workers of the job's present attempt run."""
        attempt = self.state.attempts[JobId(number)]
        for worker in attempt.workers:
            apply(self.state, ev.WorkerStarted(self.now, worker.id))

    def exited(self, number: int, outcome: Outcome = OK, rank: int | None = None) -> list[int]:
        """The job's workers (or one of them) end; then a cycle. Which jobs started?"""
        attempt = self.state.attempts[JobId(number)]
        ranks = [w.id.rank for w in attempt.workers] if rank is None else [rank]
        ids = [WorkerId(JobId(number), attempt.id.number, r) for r in ranks]
        decision = self.cycle(*(ev.WorkerExited(self.now, i, outcome) for i in ids))
        return [grant.job for grant in decision.grants]

    @property
    def memory(self) -> Any:
        return self.state.memory

    def paused(self, number: int) -> None:
        """All workers of a job that was told to stand still do so."""
        workers = self.state.attempts[JobId(number)].running
        self.cycle(*(ev.WorkerPaused(self.now, worker.id) for worker in workers))

    def settle(self) -> None:
        """Whoever was told to stop, to leave or to stand still does so, until nobody is."""
        self.leave()
        while leaving := [
            n for n, j in self.state.jobs.items() if j.state is JobState.STOPPING or n in self.state.leaving
        ]:
            for number in leaving:
                if self.job(number).state is JobState.STOPPING:
                    self.exited(number, KILLED)
                else:
                    self.paused(number)
            self.leave()

    def leave(self, *numbers: int) -> None:
        """Workers that were told to leave do so: those of these jobs, or all."""
        jobs = [JobId(n) for n in numbers] or list(self.state.shrinking)
        leavers = [w.id for n in jobs if n in self.state.attempts for w in self.state.attempts[n].leavers]
        if leavers:
            self.cycle(*(ev.WorkerExited(self.now, worker, OK) for worker in leavers))

    def crew(self, number: int) -> list[int]:
        """The ranks of those who train together."""
        return [worker.id.rank for worker in self.state.attempts[JobId(number)].crew]

    def running(self) -> list[int]:
        """Those with workers that run, or soon will, or are being stopped."""
        return sorted(number for number in self.state.attempts if not self.job(number).suspended_at)

    def suspended(self) -> list[int]:
        return sorted(number for number, one in self.state.jobs.items() if one.suspended_at)

    def where(self, number: int) -> list[str]:
        return [str(w.node) for w in self.state.attempts[JobId(number)].workers]

    def job(self, number: int) -> Job:
        return self.state.jobs[JobId(number)]
