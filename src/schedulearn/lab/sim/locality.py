"""What a job loses by being on several nodes, where that was not measured.

Either a part of its speed that is the same for all jobs (`SimOptions.locality_penalty`), or the time in which its
workers exchange gradients over the network (`bandwidth` of the nodes). In each step n workers compute, then pass what
they have around a ring: each sends 2 (n - 1) / n times the size of the model. On one node that takes what the job's
speed-up curve lacks to n; across nodes as long as the slowest network needs, and no less than on one node: what the
curve has counted is not counted again. Computing and exchanging do not overlap, and jobs share no network.
"""

import math
from collections.abc import Collection, Iterable

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import GPUS
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.sim.cluster import BANDWIDTH, GIGABIT
from schedulearn.lab.traces.types import TraceJob, Workload

# Of a job that says nothing: ResNet-50, 25.6 million parameters of 4 bytes, with 64 images a worker and step. What
# all jobs exchange in a second counts only against the bandwidth, so that one number can be varied instead.
MODEL_BYTES, STEP_SECONDS = 100e6, 0.25


class Locality:
    """Of one cluster."""

    def __init__(self, nodes: Iterable[Node] = (), penalty: float = 0.0) -> None:
        self._penalty = penalty
        nodes = list(nodes)
        self._bandwidth = {node.name: node.capacity[BANDWIDTH] or math.inf for node in nodes}
        self._largest = max((node.capacity[GPUS] for node in nodes), default=0.0)
        self._slowest = min(self._bandwidth.values(), default=math.inf)

    def loss(self, trace: TraceJob, speedup: SpeedUp, workers: int, names: Collection[NodeName] = ()) -> float:
        """The part of its speed that a job with so many workers loses on these nodes; on the slowest, without any."""
        if self._slowest == math.inf:
            return self._penalty
        if trace.gpus > self._largest:
            return 0.0  # whatever was recorded of it was recorded across nodes
        bandwidth = min((self._bandwidth[name] for name in names), default=self._slowest)
        step = (trace.step_seconds or STEP_SECONDS) * speedup(trace.gpus) / speedup(workers)
        computing = step * min(1.0, speedup(workers) / workers)
        ring = 2 * (workers - 1) / workers * (trace.model_bytes or MODEL_BYTES) / bandwidth
        return 1.0 - step / (computing + max(step - computing, ring))


def in_words(workload: Workload, nodes: Iterable[Node], penalty: float = 0.0) -> str:
    """What is taken for true of jobs on several nodes; "" if they lose nothing."""
    given = sorted({node.capacity[BANDWIDTH] / GIGABIT for node in nodes if node.capacity[BANDWIDTH]})
    if not given:
        return f"{100 * penalty:.0f} % slower across nodes" if penalty else ""
    speeds = " to ".join(f"{bandwidth:g}" for bandwidth in dict.fromkeys((given[0], given[-1])))
    asked = [job for job in workload.jobs if job.gpus > 1 and not job.placed]
    silent = sum(job.model_bytes is None or job.step_seconds is None for job in asked)
    assumed = f"{MODEL_BYTES / 1e6:g} MB exchanged every {STEP_SECONDS:g} s"
    of_them = f" ({assumed} by the {silent:,} of {len(asked):,} jobs that do not say)" if silent else ""
    return f"{speeds} Gbit/s between nodes{of_them}"
