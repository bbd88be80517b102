"""Whether a limit that is asked for makes sense for the job, and for where it runs."""

from collections.abc import Sequence

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS
from schedulearn.store import JobRow


def check_cpus_limit(row: JobRow, limit: float | None, nodes: Sequence[Node]) -> None:
    """InvalidSpec if it is below what the job is guaranteed, or above what its node (or any, while it waits) has."""
    if limit is None:
        return
    here = {placement.node for placement in row.placement}
    low = row.job.spec.resources.cpus_min
    high = max((node.capacity[CPUS] for node in nodes if not here or node.name in here), default=low)
    if not low <= limit <= high:
        problem = f"{limit:g} cores are out of bounds: the job is guaranteed {low:g}, and its node has {high:g}"
        raise InvalidSpec("cpus_limit", problem, f"{low:g}..{high:g}, or null to go back to what was submitted")
