"""Machines whose cores jobs share: what runs where, what it may use and does use, and each machine's share loop."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from schedulearn.core.control.share import ShareLoop
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS
from schedulearn.core.policies.share.division import max_min
from schedulearn.core.policies.sharing import Container, Left, Values
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.sim.facts import SimulatedFacts
from schedulearn.lab.sim.metrics import Recorder
from schedulearn.lab.sim.model import JobModel
from schedulearn.lab.traces.types import Workload

_NEGLIGIBLE = 1e-12  # cores


class SimulatedContainer:
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


class SimulatedMachine:
    """Implements `policies.sharing.ShareNode`."""

    def __init__(self, node: Node, facts: SimulatedFacts) -> None:
        self.name, self.cores = node.name, node.usable[CPUS]
        self._facts = facts
        self.now = 0.0
        self.here: dict[JobId, SimulatedContainer] = {}  # in the order of arrival

    # --- what a stage is told

    def containers(self) -> list[Container]:
        return [self._container(number, container) for number, container in self.here.items()]

    def cpu_seconds(self, job: JobId) -> float:
        return self.here[job].used(self.now)

    def other_use(self, job: JobId) -> dict[str, float]:  # noqa: ARG002 - there is no model of it
        return {}

    def evaluation(self, job: JobId, since: float) -> float | None:
        values = self.here[job].model.reported(since, self.now)
        return sum(values) / len(values) if values else None

    def values(self, job: JobId, since: float) -> Values | None:
        found = self.here[job].model.reported(since, self.now)
        return Values(found[0], found[-1], len(found)) if found else None

    def left(self, job: JobId) -> Left | None:
        return self._facts.work(self.here[job].model.job, self.now)

    # --- what becomes of its cores

    def divide(self, now: float) -> list[SimulatedContainer]:
        """Cores as they are used under the limits of now; the containers whose use has changed."""
        here = list(self.here.values())
        shares = max_min(self.cores, [min(each.alone, each.limit, each.granted) for each in here])
        changed = []
        for each, share in zip(here, shares, strict=True):
            if abs(each.cores - share) > _NEGLIGIBLE:
                each.use(now, share)
                changed.append(each)
        return changed

    def _container(self, number: JobId, container: SimulatedContainer) -> Container:
        job = container.model.job
        most = min(self.cores, job.cpus * container.workers) if job.cpus > 0 else self.cores
        least = min(most, job.shape.per_worker[CPUS] * container.workers)  # whole cores may be more than it may use
        limit = container.limit if container.limit < math.inf else None
        return Container(number, container.arrived_at, least, most, limit, reached=job.yields)


class Machines:
    """All of them. None (see `shared`) where cores do not matter: then they cost nothing."""

    def __init__(self, nodes: Iterable[Node], policy: Policy, facts: SimulatedFacts, recorder: Recorder) -> None:
        self._recorder = recorder
        self._machines = {node.name: SimulatedMachine(node, facts) for node in nodes if node.usable[CPUS] > 0}
        self._loops = {name: ShareLoop(policy.share, policy.stages.get("share", "")) for name in self._machines}
        self._touched: set[NodeName] = set()  # where a job has come or gone

    @property
    def cores(self) -> float:
        return sum(machine.cores for machine in self._machines.values())

    @property
    def busy(self) -> float:
        """Cores in use now."""
        return sum(each.cores for machine in self._machines.values() for each in machine.here.values())

    def arrived(self, model: JobModel, now: float) -> None:
        """Its job has begun to run where it was promised to, or goes on there."""
        if not model.trace.cpus:
            return  # cores do not matter to it
        for name, workers in Counter(placement.node for placement in model.job.placements).items():
            if machine := self._machines.get(name):
                machine.here[model.job.id] = SimulatedContainer(model, workers, now)
                self._touched.add(name)

    def grown(self, job: Job) -> None:
        """It was given more cores where it is."""
        self._touched |= {placement.node for placement in job.placements} & self._machines.keys()

    def left(self, job: JobId, nodes: Iterable[NodeName], now: float) -> float:
        """It runs there no more; the core-seconds that it has used since it arrived."""
        used = 0.0
        for name in set(nodes):
            if (machine := self._machines.get(name)) and (container := machine.here.pop(job, None)):
                used += container.used(now)
                self._recorder.shares(now, name, job, 0.0, math.inf)
                self._touched.add(name)
        return used

    def look_again(self, job: JobId) -> None:
        """Something about it has changed that its machines should know at once."""
        self._touched |= {name for name, machine in self._machines.items() if job in machine.here}

    def next_wake(self) -> float | None:
        wakes = [self._loops[name].wake_at for name, machine in self._machines.items() if machine.here]
        return min((at for at in wakes if at is not None), default=None)

    def settle(self, now: float) -> Iterator[tuple[JobModel, float]]:
        """Let the machines on which something has happened, or whose time has come, share anew.

        Gives each job that goes faster or slower, with its speed relative to being alone.
        """
        changed: dict[JobId, JobModel] = {}
        for name, machine in self._machines.items():
            if name in self._touched or (machine.here and self._loops[name].is_due(now)):
                changed |= {each.model.job.id: each.model for each in self._share(machine, now)}
        self._touched.clear()
        for number, model in changed.items():
            yield model, min(container.factor for container in self._containers(number))

    def _share(self, machine: SimulatedMachine, now: float) -> Sequence[SimulatedContainer]:
        machine.now = now
        answer = self._loops[machine.name].look(machine)
        for number, cores in answer.limits.items():
            machine.here[number].limit = cores
        changed = machine.divide(now)
        self._recorder.shared(now, machine.name, answer)
        for number in sorted({*(each.model.job.id for each in changed), *answer.limits}):
            container = machine.here[number]
            self._recorder.shares(now, machine.name, number, container.cores, container.limit)
        return changed

    def _containers(self, job: JobId) -> Iterator[SimulatedContainer]:
        return (machine.here[job] for machine in self._machines.values() if job in machine.here)


def matter(workload: Workload, nodes: Iterable[Node]) -> bool:
    """Whether jobs can slow each other down: they say what cores they keep busy, and machines what they have."""
    return any(job.cpus > 0 for job in workload.jobs) and any(node.usable[CPUS] > 0 for node in nodes)
