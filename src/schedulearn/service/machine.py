"""One machine whose cores are shared, live. Implements `policies.sharing.ShareNode` and `control.share.LimitSetter`.

The parts that FlowCon names: the container monitor measures (`container_monitor.py`), the worker monitor knows who is
there, the executor sets limits; `sim/machines.py` has the same for simulations.
"""

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from schedulearn.control.share import ShareLoop
from schedulearn.domain.events import LimitsSet, Shared
from schedulearn.domain.ids import JobId, NodeName, WorkerId
from schedulearn.domain.job import HistoryEvent
from schedulearn.domain.ports import Clock, Executor
from schedulearn.domain.usage import Limits
from schedulearn.policies.notes import Note
from schedulearn.policies.share.fair import Fair
from schedulearn.policies.sharing import Container, Left, Share
from schedulearn.service.container_monitor import LiveContainerMonitor
from schedulearn.service.tenants import Roll, Tenant

_LOG = logging.getLogger(__name__)
_SAME = 1e-4  # cores: limits closer than that are one, however the kernel rounds
_AFTER_A_REFUSAL = 10.0  # seconds until a worker is told again what it could not be held to
_MOST_LIFTED = 100  # workers that left with their limits lifted, whose answers may still come


class Limit(NamedTuple):
    """What the stage lets a job use."""

    arrived_at: float  # of the container that it was meant for
    cores: float


class Machine:
    """The scheduler tells who is there and which stage to follow; `look` is called by the machine's own thread."""

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
        self.name, self.cores, self.now = name, 0.0, 0.0
        self._monitor, self._executor, self._clock, self._post = monitor, executor, clock, post
        self._saved = saved
        self._tenants: dict[JobId, Tenant] = {}  # in the order of arrival
        self._loop = ShareLoop(Fair(), "fair")
        self._problem = ""  # why it is shared fairly although another stage was chosen
        self._lock = threading.Lock()  # guards what follows: the scheduler's thread reads or writes that, too
        self._roll: Roll | None = None  # None: nobody has said yet who is there
        self._chosen: tuple[Share, str] | None = None  # the stage to follow from the next look on
        self._limits = _limits_in(saved)
        self._asked: dict[WorkerId, float] = {}  # what each was last told to use, or uses without being told
        self._lifted: dict[WorkerId, float] = {}  # the same of those that have left
        self._refused: dict[WorkerId, str] = {}  # who keeps its limits, and why
        self._patient: dict[WorkerId, float] = {}  # when each of those is told again

    # --- the scheduler's thread

    def tell(self, roll: Roll) -> bool:
        """Who is there from now on; whether that is news."""
        with self._lock:
            is_news, self._roll = roll != self._roll, roll
        return is_news

    def follow(self, stage: Share, name: str) -> None:
        with self._lock:
            self._chosen = stage, name

    def within(self, worker: WorkerId, limits: Limits) -> Limits:
        """What its user lets it use now, but no more than the stage does."""
        with self._lock:
            limit = self._limits.get(worker.job)
            tenants = self._roll.tenants if self._roll else ()
            beside = next((len(each.workers) for each in tenants if each.id == worker.job), 1)
        if limit is None or limits.cpus is None:
            return limits
        return replace(limits, cpus=min(limits.cpus, limit.cores / beside))

    def answered(self, event: LimitsSet) -> bool:
        """Whether this is the answer to something that was asked here."""
        with self._lock:
            asked = self._asked.get(event.worker, self._lifted.get(event.worker))
            ours = asked is not None and event.limits.cpus is not None and _same(asked, event.limits.cpus)
            if ours and event.problem:
                self._refused[event.worker] = event.problem
                self._patient[event.worker] = self._clock.now() + _AFTER_A_REFUSAL
            elif ours:
                self._patient.pop(event.worker, None)
        return ours

    @property
    def is_idle(self) -> bool:
        """Whether nobody is limited, nor will be."""
        with self._lock:
            return not self._limits and self._chosen is None and isinstance(self._loop.stage, Fair)

    # --- the worker monitor

    def containers(self) -> list[Container]:
        return [self._container(tenant) for tenant in self._tenants.values()]

    def _container(self, tenant: Tenant) -> Container:
        limit, most = self._limits.get(tenant.id), min(self.cores, tenant.cpus * len(tenant.workers))
        in_force = limit.cores if limit else None
        return Container(tenant.id, tenant.arrived_at, tenant.least, most, in_force, tenant.yields)

    # --- the container monitor

    def cpu_seconds(self, job: JobId) -> float:
        return self._monitor.cpu_seconds(job)

    def evaluation(self, job: JobId, since: float) -> float | None:
        return self._monitor.evaluation(job, since)

    def goal(self, job: JobId) -> str:
        return self._monitor.goal(job)

    def left(self, job: JobId) -> Left | None:
        return self._monitor.left(job)

    # --- the executor

    def set_limit(self, job: JobId, cores: float) -> None:
        with self._lock:
            if math.isinf(cores):
                self._limits.pop(job, None)
            else:
                self._limits[job] = Limit(self._tenants[job].arrived_at, cores)

    def _enforce(self) -> None:
        """Tell every worker that does not keep to its job's limit. Never more than its user lets it use."""
        for tenant in self._tenants.values():
            limit = self._limits.get(tenant.id)
            each = min(tenant.cpus, limit.cores / len(tenant.workers)) if limit else tenant.cpus
            for worker in tenant.workers:
                self._hold(tenant, worker, each)

    def _hold(self, tenant: Tenant, worker: WorkerId, cores: float) -> None:
        usage = self._monitor.usage(tenant.id, worker)
        with self._lock:
            told = self._asked.get(worker, tenant.cpus)
            found = usage.limits.cpus if usage and usage.limits.cpus is not None else told
            if (_same(told, cores) and _same(found, cores)) or self._patient.get(worker, 0.0) > self.now:
                return
            self._asked[worker] = cores
            self._executor.set_limits(worker, self.name, Limits(cpus=cores))

    # --- its own thread

    def look(self) -> float | None:
        """One round; when to look again although nobody comes or goes."""
        if self._roll is None:
            return None
        self.now = self._clock.now()
        self._begin(self._roll)
        self._monitor.look(self._tenants.values(), self.now)
        notes, fault = self._refusals(), ""
        try:
            notes += self._loop.look(self, self).notes
        except Exception as error:
            fault = f"share stage {self._loop.name} on node {self.name}: {type(error).__name__}: {error}"
            _LOG.exception("share stage %s failed on node %s: nobody is limited there", self._loop.name, self.name)
            self._be_fair(fault)
        self._enforce()
        self._tell_of(notes, fault)
        return self._wake_at()

    def _wake_at(self) -> float | None:
        with self._lock:
            again = [self._loop.wake_at, *self._patient.values()]
        return min((at for at in again if at is not None), default=None)

    def _begin(self, roll: Roll) -> None:
        """Take over what the scheduler has told since the last look."""
        with self._lock:
            chosen, self._chosen = self._chosen, None
            before, self._tenants = self._tenants, {tenant.id: tenant for tenant in roll.tenants}
            self.cores = roll.cores
            for job, limit in list(self._limits.items()):
                if job not in self._tenants or self._tenants[job].arrived_at != limit.arrived_at:
                    del self._limits[job]
                    if job in before:
                        self._let_go(before[job])
            here = {worker for tenant in roll.tenants for worker in tenant.workers}
            self._asked = {worker: cores for worker, cores in self._asked.items() if worker in here}
            self._patient = {w: at for w, at in self._patient.items() if w in here and at > self.now}
            if chosen:
                self._refused.clear()
                self._patient.clear()
                self._problem = ""
                self._loop = ShareLoop(*chosen, memory=self._remembered(chosen[1]))

    def _let_go(self, tenant: Tenant) -> None:
        """It is being stopped, or has ended. To save should not take long."""
        for worker in tenant.workers:
            self._lifted[worker] = tenant.cpus
            self._executor.set_limits(worker, self.name, Limits(cpus=tenant.cpus))
        while len(self._lifted) > _MOST_LIFTED:
            del self._lifted[next(iter(self._lifted))]

    def _remembered(self, stage: str) -> dict[str, Any]:
        """Also with other parameters: who was watched before still is."""
        saved = self._saved or {}
        return dict(saved["memory"]) if saved.get("stage") == stage else {}

    def _refusals(self) -> list[Note]:
        """A machine that cannot set limits is shared fairly. That those of a worker which has just ended cannot be set
        means nothing."""
        with self._lock:
            refused, self._refused = self._refused, {}
        here = {worker: tenant for tenant in self._tenants.values() for worker in tenant.workers}
        for worker, problem in refused.items():
            tenant = here.get(worker)
            if tenant and self._executor.usage(worker, self.name) and not isinstance(self._loop.stage, Fair):
                name, asked = self._loop.name, self._asked.pop(worker, None)
                self._be_fair(f"{name} cannot set limits there: {problem}")
                words = f"{name} sets no limits on node {self.name}, which is shared fairly: {problem}"
                return [Note("share_refused", words, tenant.id, self.name, {"cores": asked, "problem": problem})]
        return []

    def _be_fair(self, problem: str) -> None:
        """Until a policy is set anew."""
        self._problem = problem
        self._loop = ShareLoop(Fair(), "fair")
        self._loop.look(self, self)

    def _tell_of(self, notes: Sequence[Note], fault: str) -> None:
        kept = {
            "stage": self._loop.name,
            "memory": self._loop.memory,
            "limits": {str(job): list(limit) for job, limit in self._limits.items()},
            "problem": self._problem,
        }
        memory = kept if kept["memory"] or kept["limits"] or self._problem else None
        if notes or fault or memory != self._saved:
            self._saved = memory
            lines = tuple(HistoryEvent(self.now, n.kind, n.words, n.job, node=n.node, data=dict(n.data)) for n in notes)
            self._post(Shared(self.now, self.name, lines, memory, fault))


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME


def _limits_in(saved: Mapping[str, Any] | None) -> dict[JobId, Limit]:
    return {JobId(int(job)): Limit(*limit) for job, limit in (saved or {}).get("limits", {}).items()}
