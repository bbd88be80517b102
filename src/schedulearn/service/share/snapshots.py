"""Which jobs share which machine, as the scheduler tells it to the share loops: snapshots that never change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Accrual, Attempt, Job
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.domain.spec import Launcher
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.usage import Limits


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The workers of one job on one machine. Amounts are cores."""

    id: JobId
    arrived_at: float  # when its attempt started there
    workers: tuple[WorkerId, ...]
    cpus: float  # that its user lets each worker use
    least: float  # what its leases guarantee
    ran: Accrual
    job: Job = field(compare=False)  # a copy: the scheduler changes its own
    yields: bool = False  # its target is reached: others go first
    time_limit: float | None = None  # seconds

    def of_one(self, worker: WorkerId, found: Limits) -> Limits:
        """The limits of one worker. Those that the kernel shows of the first of a Horovod job are for all its workers,
        which run in it."""
        carries = self.job.spec.launcher is Launcher.HOROVOD and worker.rank == 0
        return found.shared_by(len(self.workers)) if carries else found


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """What is on one machine."""

    cores: float  # what the machine has for them
    jobs: tuple[JobSnapshot, ...] = ()  # in the order of arrival


def snapshots(state: State, before: dict[NodeName, MachineSnapshot]) -> dict[NodeName, MachineSnapshot]:
    """All machines on which jobs without GPUs run. What has not changed since `before` is not made again."""
    here: dict[NodeName, list[JobSnapshot]] = defaultdict(list)
    others: dict[NodeName, float] = defaultdict(float)  # cores leased to jobs that no stage limits
    for attempt in state.attempts.values():
        job = state.jobs[attempt.id.job]
        if job.shape.gpus:
            for worker in attempt.running:
                others[worker.node] += job.shape.per_worker[CPUS]
        elif job.state is JobState.RUNNING:
            for node, one in _snapshots(job, attempt):
                here[node].append(one)
    found = {}
    for node, jobs in here.items():
        if ledger := state.ledger.node(node):
            known = {job.id: job for job in before[node].jobs} if node in before else {}
            found[node] = MachineSnapshot(ledger.node.usable[CPUS] - others[node], _kept(jobs, known))
    return found


def _snapshots(job: Job, attempt: Attempt) -> Iterator[tuple[NodeName, JobSnapshot]]:
    started = [worker for worker in attempt.workers if worker.started_at is not None]
    for node in dict.fromkeys(worker.node for worker in started):
        there = [worker for worker in started if worker.node == node]
        present = tuple(worker.id for worker in there if worker.ended_at is None and worker.left_at is None)
        if present:
            arrived = _as_stored(min(worker.started_at or 0.0 for worker in there))
            least = min(job.shape.per_worker[CPUS], job.cpus) * len(present)  # whole cores may be more than it may use
            yield node, JobSnapshot(job.id, arrived, present, job.cpus, least, job.ran, job, job.yields, job.time_limit)


def _as_stored(at: float) -> float:
    """In whole microseconds: after a restart it must be the same time."""
    return round(at * 1_000_000) / 1_000_000


def _kept(jobs: Iterable[JobSnapshot], known: dict[JobId, JobSnapshot]) -> tuple[JobSnapshot, ...]:
    ordered = sorted(jobs, key=lambda one: (one.arrived_at, one.id))
    return tuple(known[one.id] if known.get(one.id) == one else replace(one, job=copy(one.job)) for one in ordered)
