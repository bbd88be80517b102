"""No limits."""

import math

from schedulearn.core.policies.sharing import ShareNode, Shares
from schedulearn.core.policies.stages import Memory


class Fair:
    """Nobody is limited, and what another stage has set is lifted: jobs compete as equals."""

    def share(self, node: ShareNode, memory: Memory) -> Shares:
        return Shares({container.job: math.inf for container in node.containers() if container.limit is not None})
