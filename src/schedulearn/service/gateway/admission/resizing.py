"""May this job have so many workers? Asked when somebody wants it, so that what cannot be is refused at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.resizing import spots_within
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.job import Lease, Spot
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.spec import JobSpec, Launcher, Preemptible, Workers
from schedulearn.core.domain.states import WITH_WORKERS
from schedulearn.executors.common.folders import has_files
from schedulearn.executors.common.paths import JobPaths
from schedulearn.service.gateway.admission.possible import check_possible
from schedulearn.store import JobRow


def workers_asked(spec: JobSpec, asked: Mapping[str, int]) -> Workers:
    """`want` alone: the rest is as it was."""
    return spec.workers.wanting(asked["want"]) if asked.keys() == {"want"} else Workers(**asked)


def check_workers(row: JobRow, workers: Workers, nodes: Sequence[Node], leases: Sequence[Lease], data: Path) -> None:
    """InvalidSpec or Conflict say why not. What is promised to others the scheduler alone knows: it looks again."""
    spec = row.job.spec
    check_possible(replace(spec, workers=workers), nodes)
    if spec.launcher is Launcher.HOROVOD and spec.resources.gpus and workers.min < workers.max:
        problem = "a job of Horovod with GPUs cannot change its size: it keeps the devices it starts with"
        raise InvalidSpec("workers", problem, "one number")
    if row.job.state not in WITH_WORKERS:
        return
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, [(lease.amounts, lease.devices) for lease in leases if lease.node == node.name])
    job = replace(row.job)
    job.spots = tuple(Spot(place.node, place.devices) for place in row.placement)
    job.checkpointed = _may_have_checkpoint(row, nodes, data)
    spots_within(ledger, job, workers)


def _may_have_checkpoint(row: JobRow, nodes: Sequence[Node], data: Path) -> bool:
    """Of a container's checkpoint the scheduler knows more."""
    if row.job.spec.preemptible is not Preemptible.AUTO:
        return False
    here = {place.node for place in row.placement}
    contained = any(node.executor != "process" for node in nodes if node.name in here)
    return contained or has_files(JobPaths.of(data, row.job.id).checkpoint)
