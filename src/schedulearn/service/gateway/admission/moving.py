"""Where can this job move now? Asked when somebody wants it, so that a wrong target is refused at once."""

from collections.abc import Sequence

from schedulearn.core.control.ledger import Ledger
from schedulearn.core.control.moves import Destination, destinations, spots_on
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Lease, Spot
from schedulearn.core.domain.node import Node
from schedulearn.store import JobRow


def check_move(row: JobRow, target: NodeName, nodes: Sequence[Node], leases: Sequence[Lease]) -> None:
    """InvalidSpec or Conflict say why not. What is promised to others the scheduler alone knows: it looks again."""
    spots_on(_ledger(row, nodes, leases), row.job, target)


def possible_moves(row: JobRow, nodes: Sequence[Node], leases: Sequence[Lease]) -> list[Destination]:
    """Every other node, and what would be said against it. Conflict if the job cannot be moved at all."""
    return destinations(_ledger(row, nodes, leases), row.job)


def _ledger(row: JobRow, nodes: Sequence[Node], leases: Sequence[Lease]) -> Ledger:
    """What is free; the job itself is told where it is."""
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, [(lease.amounts, lease.devices) for lease in leases if lease.node == node.name])
    row.job.spots = tuple(Spot(place.node, place.devices) for place in row.placement)
    return ledger
