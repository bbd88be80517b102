"""One machine whose cores are shared, live; `lab/sim/machines.py` has the same for simulations."""

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from schedulearn.core.control.share import ShareLoop
from schedulearn.core.domain.events import LimitsSet, Shared
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.core.domain.ports import Clock, Executor
from schedulearn.core.domain.usage import Limits
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.sharing import Container, Share
from schedulearn.service.share.container_monitor import LiveContainerMonitor
from schedulearn.service.share.snapshots import JobSnapshot, MachineSnapshot

_LOG = logging.getLogger(__name__)
_SAME = 1e-4  # cores: limits closer than that are one, however the kernel rounds
_AFTER_A_REFUSAL = 10.0  # seconds until a worker is told again what it could not be held to
_TRY_AGAIN = 300.0  # seconds that a machine which could not set limits is shared fairly
_SEE_AGAIN = 1.0  # seconds until it is looked whether limits that were lifted have gone
_KEEP_EVERY = 60.0  # seconds between two times that what was merely measured is written down


Kept = Mapping[str, Any]


class Limit(NamedTuple):
    """What the stage lets a job use."""

    arrived_at: float  # of the container that it was meant for
    cores: float


class SharedMachine:
    """The scheduler tells which jobs are there and which stage to follow; the machine's own thread calls `look`."""

    def __init__(
        self,
        name: NodeName,
        monitor: LiveContainerMonitor,
        executor: Executor,
        clock: Clock,
        post: Callable[[Shared], None],
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        """`saved`: what an earlier life, or loop, remembered of this machine."""
        self.name, self._cores, self._now = name, 0.0, 0.0
        self._monitor, self._executor, self._clock, self._post = monitor, executor, clock, post
        self._saved = saved
        self._jobs: dict[JobId, JobSnapshot] = {}  # in the order of arrival
        self._loop = ShareLoop(None, "fair")
        self._stage: tuple[Share | None, str] = None, "fair"  # that was chosen
        self._problem = ""  # why it is shared fairly although another stage was chosen
        self._try_at: float | None = None  # when that is tried again
        self._kept_at = 0.0  # when something was last written down
        self._lock = threading.Lock()  # guards what follows: the scheduler's thread reads or writes that, too
        self._snapshot: MachineSnapshot | None = None  # None: the scheduler has told nothing yet
        self._chosen: tuple[Share | None, str] | None = None  # the stage to follow from the next look on
        self._limits = _limits_in(saved)
        self._inherits = bool(self._limits)
        self._lifting: dict[JobId, Limit] = {}  # no longer wanted, but not yet seen to have gone
        self._asked: dict[WorkerId, float] = {}  # what each was last told to use; without it, what its user lets it
        self._works = False  # a limit was set since the stage was begun
        self._refused: dict[WorkerId, str] = {}  # workers that keep their limits, and why
        self._patient: dict[WorkerId, float] = {}  # when each of those is told again

    # --- the scheduler's thread

    def tell(self, snapshot: MachineSnapshot) -> bool:
        """What is there from now on; whether that is news."""
        with self._lock:
            is_news, self._snapshot = snapshot != self._snapshot, snapshot
        return is_news

    def follow(self, stage: Share | None, name: str) -> None:
        with self._lock:
            self._chosen = stage, name

    def within(self, worker: WorkerId, limits: Limits) -> Limits:
        """What its user lets it use now, but no more than the stage does."""
        with self._lock:
            limit = self._limits.get(worker.job)
            jobs = self._snapshot.jobs if self._snapshot else ()
            beside = next((len(each.workers) for each in jobs if each.id == worker.job), 1)
        if limit is None or limits.cpus is None:
            return limits
        return replace(limits, cpus=min(limits.cpus, limit.cores / beside))

    def answered(self, event: LimitsSet) -> bool:
        """Whether this is the answer to something that was asked here of a worker that is still there."""
        with self._lock:
            ours = event.automatic and event.worker in self._asked
            if ours and event.problem:
                self._refused[event.worker] = event.problem
                self._patient[event.worker] = self._clock.now() + _AFTER_A_REFUSAL
            elif ours:
                self._works = True
                self._patient.pop(event.worker, None)
        return ours

    @property
    def is_idle(self) -> bool:
        """Whether no job is limited, as far as the kernel says, nor will be."""
        with self._lock:
            is_limited = self._limits or self._lifting or self._patient
            return not is_limited and self._chosen is None and not self._loop.limits_jobs

    # --- limits

    def _ask(self) -> Sequence[Note]:
        """Ask the stage, and note the limits that it wants."""
        self._monitor.show(self._cores, [self._container(job) for job in self._jobs.values()])
        answer = self._loop.look(self._monitor)
        with self._lock:
            for number, cores in answer.limits.items():
                self._set_limit(number, cores)
        return answer.notes

    def _container(self, job: JobSnapshot) -> Container:
        limit, most = self._limits.get(job.id), min(self._cores, job.cpus * len(job.workers))
        return Container(job.id, job.arrived_at, job.least, most, limit.cores if limit else None, job.yields)

    def _set_limit(self, job: JobId, cores: float) -> None:
        before = self._limits.pop(job, None)
        if math.isfinite(cores):
            self._limits[job] = Limit(self._jobs[job].arrived_at, cores)
            self._lifting.pop(job, None)
        elif before:
            self._lifting[job] = before

    def _enforce(self) -> None:
        """Tell every worker that does not keep to its job's limit. Never more than its user lets it use."""
        for job in self._jobs.values():
            limit = self._limits.get(job.id)
            each = min(job.cpus, limit.cores / len(job.workers)) if limit else job.cpus
            are_held = [self._hold(job, worker, each) for worker in job.workers]
            if limit is None and all(are_held):
                with self._lock:
                    self._lifting.pop(job.id, None)

    def _hold(self, job: JobSnapshot, worker: WorkerId, cores: float) -> bool:
        """Whether the kernel is seen to hold it to that already, or to nothing."""
        usage = self._monitor.usage(job.id, worker)
        found = job.of_one(worker, usage.limits).cpus if usage else None
        is_so = found is None or _same(found, cores)
        with self._lock:
            is_told = _same(self._asked.get(worker, job.cpus), cores)
            if not (is_told and is_so) and self._patient.get(worker, 0.0) <= self._now:
                self._asked[worker] = cores
                self._executor.set_limits(worker, self.name, Limits(cpus=cores), automatic=True)
        return usage is not None and is_told and is_so

    # --- its own thread

    def look(self) -> float | None:
        """One round; when to look again although no job comes or goes."""
        if self._snapshot is None:
            return None
        self._now = self._clock.now()
        self._begin(self._snapshot)
        self._monitor.look(self._jobs.values(), self._now)
        notes, fault = [*self._refusals(), *self._tried_again()], ""
        try:
            notes += self._ask()
        except Exception as error:
            fault = f"share stage {self._loop.name} on node {self.name}: {type(error).__name__}: {error}"
            _LOG.exception("share stage %s failed on node %s: no job is limited there", self._loop.name, self.name)
            self._be_fair(fault)
        self._enforce()
        self._tell_of(notes, fault)
        return self._wake_at()

    def _wake_at(self) -> float | None:
        with self._lock:
            again = [self._try_at, *self._patient.values()]
            if not self._loop.limits_jobs and self._lifting:
                again.append(self._now + _SEE_AGAIN)
        containers = [self._container(job) for job in self._jobs.values()]
        if any(container.least < container.most - _SAME for container in containers):
            again.append(self._loop.wake_at)  # else there is nothing to decide until a job comes or goes
        return min((at for at in again if at is not None), default=None)

    def _begin(self, snapshot: MachineSnapshot) -> None:
        """Take over what the scheduler has told since the last look."""
        with self._lock:
            chosen, self._chosen = self._chosen, None
            before, self._jobs = self._jobs, {job.id: job for job in snapshot.jobs}
            self._cores = snapshot.cores
            for number, limit in list(self._limits.items()):
                if number not in self._jobs or self._jobs[number].arrived_at != limit.arrived_at:
                    del self._limits[number]
                    if number in before:
                        self._let_go(before[number])
            self._lifting = {number: limit for number, limit in self._lifting.items() if number in self._jobs}
            here = {worker for job in snapshot.jobs for worker in job.workers}
            if self._inherits:  # what was asked may have got lost: ask again
                self._asked = {w: math.nan for number in self._limits for w in self._jobs[number].workers}
                self._inherits = False
            self._asked = {worker: cores for worker, cores in self._asked.items() if worker in here}
            self._patient = {w: at for w, at in self._patient.items() if w in here and at > self._now}
            if chosen:
                self._refused.clear()
                self._patient.clear()
                self._problem, self._try_at, self._stage = "", None, chosen
                self._loop = ShareLoop(*chosen, memory=self._remembered(chosen[1]))

    def _let_go(self, job: JobSnapshot) -> None:
        """It is being stopped, or has ended. To save should not take long."""
        for worker in job.workers:
            self._executor.set_limits(worker, self.name, Limits(cpus=job.cpus), automatic=True)

    def _remembered(self, stage: str) -> dict[str, Any]:
        """Also with other parameters: a job that was watched before still is."""
        if self._loop.name == stage:
            return dict(self._loop.memory)
        saved = self._saved or {}
        return dict(saved["memory"]) if saved.get("stage") == stage else {}

    def _refusals(self) -> list[Note]:
        """A machine that cannot set limits is shared fairly for a while. That those of a worker which has just ended
        cannot be set means nothing; where a limit cannot be lifted, it would not help. Said once."""
        with self._lock:
            refused, self._refused = self._refused, {}
        here = {worker: job for job in self._jobs.values() for worker in job.workers}
        for worker, problem in refused.items():
            job = here.get(worker)
            is_limited = job and job.id in self._limits and self._loop.limits_jobs
            if job and is_limited and self._executor.usage(worker, self.name):
                name, asked, is_known = self._loop.name, self._asked.pop(worker, None), bool(self._problem)
                self._be_fair(f"{name} cannot set limits there: {problem}")
                self._try_at = self._now + _TRY_AGAIN
                if is_known:
                    break
                words = f"{name} sets no limits on node {self.name}, which is shared fairly: {problem}"
                return [Note("share_refused", words, job.id, self.name, {"cores": asked, "problem": problem})]
        return []

    def _tried_again(self) -> list[Note]:
        """Whether a machine that could not set limits can do so now. There is a problem until one was set."""
        if self._try_at is not None and self._now >= self._try_at:
            self._try_at, self._works = None, False
            self._loop = ShareLoop(*self._stage)
        if not (self._problem and self._works and self._loop.limits_jobs):
            return []
        self._problem, name = "", self._loop.name
        return [Note("share_resumed", f"{name} sets limits on node {self.name} again", None, self.name, {})]

    def _be_fair(self, problem: str) -> None:
        """After a refusal for a while, after a fault until a policy is set anew."""
        self._problem = problem
        self._loop = ShareLoop(None, "fair")
        self._ask()

    def _tell_of(self, notes: Sequence[Note], fault: str) -> None:
        """What is merely measured differs at every look: that is no reason for a transaction each time."""
        memory = _kept(self._loop.name, self._loop.memory, {**self._lifting, **self._limits}, self._problem)
        is_late = self._now >= self._kept_at + _KEEP_EVERY and memory != self._saved
        if notes or fault or is_late or _gist(memory) != _gist(self._saved):
            self._saved, self._kept_at = memory, self._now
            now = self._now
            lines = tuple(HistoryEvent(now, n.kind, n.words, n.job, node=n.node, data=dict(n.data)) for n in notes)
            self._post(Shared(now, self.name, lines, memory, fault))


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME


# --- what is kept for the loop's next life: plain JSON


def _kept(stage: str, memory: Mapping[str, Any], limits: Mapping[JobId, Limit], problem: str) -> Kept | None:
    """None: there is nothing to keep."""
    if not memory and not limits and not problem:
        return None
    told = {str(job): list(limit) for job, limit in limits.items()}
    return {"stage": stage, "memory": memory, "limits": told, "problem": problem}


def _limits_in(saved: Kept | None) -> dict[JobId, Limit]:
    return {JobId(int(job)): Limit(*limit) for job, limit in (saved or {}).get("limits", {}).items()}


def _gist(saved: Kept | None) -> Kept | None:
    """All but the times and measurements that the stage remembers: those differ at every look."""
    return {**saved, "memory": _without_floats(saved["memory"])} if saved else None


def _without_floats(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _without_floats(value) for name, value in found.items() if not isinstance(value, float)}
    return found
