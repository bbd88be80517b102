"""The share loop of one machine, as far as it is the same live and simulated.

Live each machine's loop has a thread of its own, simulated it is an event: the machine's monitors say who is there and
what each has used and achieved, the stage answers with limits, and the executor sets them.
"""

import math
from typing import Protocol

from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId
from schedulearn.core.policies.sharing import Container, Share, ShareNode, Shares
from schedulearn.core.policies.stages import Memory

_FORGIVEN = 1e-9


class LimitSetter(Protocol):
    """What acts on the machine: FlowCon's executor."""

    def set_limit(self, job: JobId, cores: float) -> None:
        """The job's container may use so many cores from now on; math.inf: as many as its user lets it."""


class ShareLoop:
    """Asks the stage and has its answer set. Keeps the stage's memory of this machine."""

    def __init__(self, stage: Share, name: str, memory: Memory | None = None) -> None:
        self.stage, self.name = stage, name
        self.memory: Memory = memory if memory is not None else {}
        self.wake_at: float | None = None  # when to look although nobody has come or gone

    def is_due(self, now: float) -> bool:
        return self.wake_at is not None and now >= self.wake_at

    def look(self, node: ShareNode, executor: LimitSetter) -> Shares:
        """One round, or the answer to somebody's coming or going. BadPlan, with nothing changed, if it may not be."""
        memory = dict(self.memory)
        answer = self.stage.share(node, memory)
        here = {container.job: container for container in node.containers()}
        for job, cores in answer.limits.items():
            self._check(here.get(job), job, cores)
        if answer.wake_at is not None and answer.wake_at <= node.now:
            raise BadPlan(f"the share stage {self.name} wants to be asked again without any time passing")
        self.memory, self.wake_at = memory, answer.wake_at
        for job, cores in answer.limits.items():
            executor.set_limit(job, cores)
        return answer

    def _check(self, container: Container | None, job: JobId, cores: float) -> None:
        if container is None:
            raise BadPlan(f"the share stage {self.name} limits job {job}, which is not there")
        if math.isnan(cores) or cores <= 0 or cores < container.least - _FORGIVEN:
            least = f"; its lease guarantees {container.least:g}"
            raise BadPlan(f"the share stage {self.name} leaves job {job} with {cores:g} cores{least}")


def shared(state: State, event: ev.Shared) -> None:
    """Write down what the loop of a machine did, together with what it remembers of it."""
    for note in event.notes:
        job = state.jobs.get(note.job) if note.job is not None else None
        ended = {"job": note.job} if note.job is not None and job is None else {}
        state.record(note.at, note.kind, note.cause, job, node=note.node, data={**note.data, **ended})
    state.changes.shares[event.node] = event.memory if state.ledger.node(event.node) else None
