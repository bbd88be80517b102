"""Can this job move there now? Asked when somebody wants it, so that a wrong target is refused at once."""

from collections.abc import Sequence

from schedulearn.control.ledger import Ledger
from schedulearn.control.moves import spots_on
from schedulearn.domain.ids import NodeName
from schedulearn.domain.job import Lease, Spot
from schedulearn.domain.node import Node
from schedulearn.store import JobRow


def check_move(row: JobRow, target: NodeName, nodes: Sequence[Node], leases: Sequence[Lease]) -> None:
    """InvalidSpec or Conflict say why not. What is promised to others the scheduler alone knows: it looks again."""
    ledger = Ledger()
    for node in nodes:
        ledger.set_node(node, [(lease.amounts, lease.devices) for lease in leases if lease.node == node.name])
    row.job.spots = tuple(Spot(place.node, place.devices) for place in row.placement)
    spots_on(ledger, row.job, target)
