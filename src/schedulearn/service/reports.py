"""Takes in what workers report."""

from collections.abc import Sequence

from schedulearn.domain.ids import WorkerId
from schedulearn.domain.spec import Launcher
from schedulearn.store import Point, Store

_ONE_VOICE = frozenset({Launcher.ELASTIC, Launcher.HOROVOD})  # of their workers only the leader reports


def add_reports(store: Store, worker: WorkerId, points: Sequence[Point]) -> int:
    """How many were new. Workers of an elastic job come and go: its curve goes on when another one leads."""
    row = store.job(worker.job) if worker.rank else None
    series = 0 if row and row.job.spec.launcher in _ONE_VOICE else worker.rank
    return store.add_points(worker.job, worker.attempt, worker.rank, "report", points, series)
