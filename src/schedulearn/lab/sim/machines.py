"""Machines whose cores jobs share: who is where, what each may use and does use, and the share loop of each machine."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from schedulearn.core.control.share import ShareLoop
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.sharing import Container, Left, Shares
from schedulearn.core.policies.stages import Facts, Policy
from schedulearn.lab.sim.metrics import Recorder
from schedulearn.lab.sim.model import JobModel
from schedulearn.lab.traces.types import Workload

_FORGIVEN = 1e-12  # cores


class Tenant:
    """The workers of one job on one machine."""

    __slots__ = ("_since", "_used", "alone", "arrived_at", "cores", "limit", "model", "workers")

    def __init__(self, model: JobModel, workers: int, now: float) -> None:
        self.model, self.workers, self.arrived_at = model, workers, now
        self.alone = model.trace.cpus * workers  # what it keeps busy when alone
        self.limit = math.inf  # cores
        self.cores = 0.0  # that it uses now
        self._used, self._since = 0.0, now

    def used(self, now: float) -> float:
        """Core-seconds since it arrived."""
        return self._used + self.cores * (now - self._since)

    def use(self, now: float, cores: float) -> None:
        self._used, self._since, self.cores = self.used(now), now, cores

    @property
    def granted(self) -> float:
        """The whole cores that it was given, where cores are given out."""
        return self.model.job.cores or math.inf

    @property
    def factor(self) -> float:
        """How fast it goes, relative to being alone."""
        return self.cores / self.alone if self.alone else 1.0


class Machine:
    """Implements `policies.sharing.ShareNode` and `control.share.LimitSetter`."""

    def __init__(self, node: Node, loop: ShareLoop | None, facts: Facts) -> None:
        self.name, self.cores = node.name, node.usable[CPUS]
        self._facts = facts
        self.now = 0.0
        self.loop = loop
        self.tenants: dict[JobId, Tenant] = {}  # in the order of arrival

    # --- the monitors

    def containers(self) -> list[Container]:
        return [self._container(number, tenant) for number, tenant in self.tenants.items()]

    def cpu_seconds(self, job: JobId) -> float:
        return self.tenants[job].used(self.now)

    def evaluation(self, job: JobId, since: float) -> float | None:
        values = self.tenants[job].model.reported(since, self.now)
        return sum(values) / len(values) if values else None

    def left(self, job: JobId) -> Left | None:
        tenant = self.tenants[job]
        found = self._facts.estimate(tenant.model.job, self.now)
        # What it does in a second alone takes the cores that it keeps busy then.
        if found is None:
            return None
        return Estimate(tenant.alone * found.low, tenant.alone * found.expected, tenant.alone * found.high)

    # --- the executor

    def set_limit(self, job: JobId, cores: float) -> None:
        self.tenants[job].limit = cores

    def divide(self, now: float) -> list[Tenant]:
        """Cores as they are used under the limits of now; those whose use has changed."""
        tenants = list(self.tenants.values())
        shares = max_min(self.cores, [min(tenant.alone, tenant.limit, tenant.granted) for tenant in tenants])
        changed = []
        for tenant, share in zip(tenants, shares, strict=True):
            if abs(tenant.cores - share) > _FORGIVEN:
                tenant.use(now, share)
                changed.append(tenant)
        return changed

    def _container(self, number: JobId, tenant: Tenant) -> Container:
        job = tenant.model.job
        most = min(self.cores, job.cpus * tenant.workers) if job.cpus > 0 else self.cores
        least = min(most, job.shape.per_worker[CPUS] * tenant.workers)  # whole cores may be more than it may use
        limit = tenant.limit if tenant.limit < math.inf else None
        return Container(number, tenant.arrived_at, least, most, limit, reached=job.yields)


class Machines:
    """All of them. None (see `shared`) where cores do not matter: then they cost nothing."""

    def __init__(self, nodes: Iterable[Node], policy: Policy, facts: Facts, recorder: Recorder) -> None:
        self._recorder = recorder
        share, name = policy.share, policy.stages.get("share", "")
        self._machines = {
            node.name: Machine(node, ShareLoop(share, name) if share else None, facts)
            for node in nodes
            if node.usable[CPUS] > 0
        }
        self._touched: set[NodeName] = set()  # where somebody has come or gone

    @property
    def cores(self) -> float:
        return sum(machine.cores for machine in self._machines.values())

    @property
    def busy(self) -> float:
        """Cores in use now."""
        return sum(tenant.cores for machine in self._machines.values() for tenant in machine.tenants.values())

    def arrived(self, model: JobModel, now: float) -> None:
        """Its job has begun to run where it was promised to, or goes on there."""
        if not model.trace.cpus:
            return  # cores do not matter to it
        for name, workers in Counter(spot.node for spot in model.job.spots).items():
            if machine := self._machines.get(name):
                machine.tenants[model.job.id] = Tenant(model, workers, now)
                self._touched.add(name)

    def grown(self, job: Job) -> None:
        """It was given more cores where it is."""
        self._touched |= {spot.node for spot in job.spots} & self._machines.keys()

    def left(self, job: JobId, nodes: Iterable[NodeName], now: float) -> float:
        """It runs there no more; the core-seconds that it has used since it arrived."""
        used = 0.0
        for name in set(nodes):
            if (machine := self._machines.get(name)) and (tenant := machine.tenants.pop(job, None)):
                used += tenant.used(now)
                self._recorder.shares(now, name, job, 0.0, math.inf)
                self._touched.add(name)
        return used

    def look_again(self, job: JobId) -> None:
        """Something about it has changed that its machines should know at once."""
        self._touched |= {name for name, machine in self._machines.items() if job in machine.tenants}

    def next_wake(self) -> float | None:
        wakes = [machine.loop.wake_at for machine in self._machines.values() if machine.loop and machine.tenants]
        return min((at for at in wakes if at is not None), default=None)

    def settle(self, now: float) -> Iterator[tuple[JobModel, float]]:
        """Let the machines on which something has happened, or whose time has come, share anew.

        Gives each job that goes faster or slower, with its speed relative to being alone.
        """
        changed: dict[JobId, JobModel] = {}
        for name, machine in self._machines.items():
            is_due = machine.loop is not None and machine.tenants and machine.loop.is_due(now)
            if name in self._touched or is_due:
                changed |= {tenant.model.job.id: tenant.model for tenant in self._share(machine, now)}
        self._touched.clear()
        for number, model in changed.items():
            yield model, min(tenant.factor for tenant in self._tenants(number))

    def _share(self, machine: Machine, now: float) -> Sequence[Tenant]:
        machine.now = now
        answer = machine.loop.look(machine, machine) if machine.loop else Shares()
        changed = machine.divide(now)
        self._recorder.shared(now, machine.name, answer)
        for number in sorted({*(tenant.model.job.id for tenant in changed), *answer.limits}):
            tenant = machine.tenants[number]
            self._recorder.shares(now, machine.name, number, tenant.cores, tenant.limit)
        return changed

    def _tenants(self, job: JobId) -> Iterator[Tenant]:
        return (machine.tenants[job] for machine in self._machines.values() if job in machine.tenants)


def matter(workload: Workload, nodes: Iterable[Node]) -> bool:
    """Whether jobs can slow each other down: they say what cores they keep busy, and machines what they have."""
    return any(job.cpus > 0 for job in workload.jobs) and any(node.usable[CPUS] > 0 for node in nodes)
