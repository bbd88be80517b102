"""Looks at what every running worker uses, again and again, and writes it down."""

import logging
from dataclasses import replace

from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.job import Lease
from schedulearn.core.domain.ports import Executor
from schedulearn.core.domain.usage import Usage, cores_used
from schedulearn.service.common.repeating import Repeating, log_fault
from schedulearn.store import Store, UsageSample

_LOG = logging.getLogger(__name__)
EVERY = 5.0  # seconds between two looks at all workers
_CLOSE_WITHIN = 10.0  # seconds


class Monitor(Repeating):
    """A thread that asks the executor. That never waits for an engine, so a slow one delays no look at the others."""

    def __init__(self, store: Store, executor: Executor, every: float = EVERY) -> None:
        super().__init__("monitor", every, "what workers use could not be written down")
        self._store, self._executor = store, executor
        self._before: dict[WorkerId, Usage] = {}
        self._energy_before: dict[WorkerId, float] = {}  # joules that an earlier life of the service counted

    def close(self) -> None:
        super().close()
        self._thread.join(_CLOSE_WITHIN)

    def look(self) -> None:
        """One look at every worker that holds a lease."""
        looked = {lease.worker: self._ask(lease) for lease in self._store.leases()}
        new = {worker: usage for worker, usage in looked.items() if usage and self._is_new(worker, usage)}
        if new:
            self._store.add_usage([self._sample(worker, usage) for worker, usage in new.items()])
        self._before = {worker: usage for worker, usage in {**self._before, **new}.items() if worker in looked}
        self._energy_before = {worker: joules for worker, joules in self._energy_before.items() if worker in looked}

    def _ask(self, lease: Lease) -> Usage | None:
        try:
            return self._executor.usage(lease.worker, lease.node)
        except Exception:  # of one engine; the others are looked at all the same
            log_fault(_LOG, "worker %s on %s cannot be looked at", lease.worker, lease.node)
            return None

    def _is_new(self, worker: WorkerId, usage: Usage) -> bool:
        """An engine elsewhere is asked less often, and one that is silent has nothing new to tell."""
        before = self._before.get(worker)
        return before is None or before.at != usage.at

    def _sample(self, worker: WorkerId, usage: Usage) -> UsageSample:
        before = self._before.get(worker)
        if usage.energy is not None:
            if worker not in self._energy_before:
                self._energy_before[worker] = self._known_energy(worker)
            usage = replace(usage, energy=usage.energy + self._energy_before[worker])
        return UsageSample(worker, usage, cores_used(before, usage) if before else None)

    def _known_energy(self, worker: WorkerId) -> float:
        known = self._store.usage_of(worker.job, worker.attempt, max_points=1)
        return next((one.latest.energy or 0.0 for one in known if one.worker == worker), 0.0)
