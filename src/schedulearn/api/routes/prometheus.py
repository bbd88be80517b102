"""Figures for Prometheus, at the root path /metrics."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from fastapi import Response
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from schedulearn.api.common.deps import Gate
from schedulearn.api.common.router import Router
from schedulearn.core.domain.states import JobState
from schedulearn.service.gateway.views import Counts, WorkerUsage

router = Router(tags=["service"])
_MOST_JOBS = 500  # that have series of their own: a database of series must not grow without bounds
_Reading = Callable[[WorkerUsage], float | None]
_GAUGES: dict[str, tuple[str, _Reading]] = {
    "cpus": ("Cores in use.", lambda used: used.cpus),
    "cpus_limit": ("Cores that it may use.", lambda used: used.latest.limits.cpus),
    "memory_bytes": ("Memory in use.", lambda used: used.latest.memory),
}
_COUNTERS: dict[str, tuple[str, _Reading]] = {
    "cpu_seconds": ("Core-seconds used by the present attempt.", lambda used: used.latest.cpu_seconds),
    "read_bytes": ("Bytes read from block devices.", lambda used: used.latest.read_bytes),
    "written_bytes": ("Bytes written to block devices.", lambda used: used.latest.written_bytes),
    "received_bytes": ("Bytes received over the network.", lambda used: used.latest.received_bytes),
    "sent_bytes": ("Bytes sent over the network.", lambda used: used.latest.sent_bytes),
    "energy_joules": ("Energy used.", lambda used: used.latest.energy),
}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(gateway: Gate) -> Response:
    """Jobs by state, what nodes have and have free, how far the history is, and how fresh the scheduler."""
    registry = CollectorRegistry()
    registry.register(_Figures(gateway.counts()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Figures(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts, health = self._counts, self._counts.health
        jobs = GaugeMetricFamily("schedulearn_jobs", "Jobs by state.", labels=["state"])
        for state in JobState:
            jobs.add_metric([state], counts.jobs.get(state, 0))
        yield jobs
        yield from self._nodes()
        yield from _usage(self._counts.usage)
        yield CounterMetricFamily("schedulearn_events", "Events in the history so far.", counts.last_event)
        yield GaugeMetricFamily("schedulearn_scheduler_up", "1 if a scheduler runs.", int(health.scheduler_runs))
        if health.scheduler_age is not None:
            about = "Seconds since the scheduler's last sign of life."
            yield GaugeMetricFamily("schedulearn_scheduler_heartbeat_age_seconds", about, health.scheduler_age)

    def _nodes(self) -> Iterator[Metric]:
        labels = ["node", "resource"]
        capacity = GaugeMetricFamily("schedulearn_node_capacity", "What the node has.", labels=labels)
        free = GaugeMetricFamily("schedulearn_node_free", "What may still be leased on the node.", labels=labels)
        up = GaugeMetricFamily(
            "schedulearn_node_state", "1 for the state that the node is in.", labels=["node", "state"]
        )
        running = GaugeMetricFamily("schedulearn_node_jobs", "Jobs with workers on the node.", labels=["node"])
        for view in self._counts.nodes:
            name = view.node.name
            for resource, amount in view.node.capacity.items():
                capacity.add_metric([name, resource], amount)
                free.add_metric([name, resource], max(0.0, view.free[resource]))
            up.add_metric([name, view.node.state], 1)
            running.add_metric([name], len(view.jobs))
        yield from (capacity, free, up, running)


def _usage(workers: Sequence[WorkerUsage]) -> Iterator[Metric]:
    """What running jobs use, each over all its workers; of very many jobs, the newest. Nothing where it is unknown."""
    by_job = {job: list(used) for job, used in groupby(workers, lambda used: used.worker.job)}
    newest = sorted(by_job)[-_MOST_JOBS:]
    for name, (about, read) in (_GAUGES | _COUNTERS).items():
        kind = GaugeMetricFamily if name in _GAUGES else CounterMetricFamily
        family = kind(f"schedulearn_job_{name}", about, labels=["job"])
        for job in newest:
            known = [value for value in map(read, by_job[job]) if value is not None]
            if known:
                family.add_metric([str(job)], sum(known))
        yield family
