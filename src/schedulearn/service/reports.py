"""Takes in what workers report."""

from collections.abc import Sequence

from schedulearn.domain.ids import WorkerId
from schedulearn.store import Point, Store


def add_reports(store: Store, worker: WorkerId, points: Sequence[Point]) -> int:
    """How many were new. Where workers come and go only the leader reports, and the curve goes on with the next one."""
    row = store.job(worker.job) if worker.rank else None
    series = 0 if row and row.job.spec.hot else worker.rank
    return store.add_points(worker.job, worker.attempt, worker.rank, "report", points, series)
