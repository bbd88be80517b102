"""Takes in what workers report, and says in a job's story what is not taken."""

from collections.abc import Sequence

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.job import HistoryEvent
from schedulearn.store import MOST_SERIES, Point, Store, Taken


def add_reports(store: Store, worker: WorkerId, points: Sequence[Point], now: float) -> Taken:
    """Where workers come and go only the leader reports, and the curve goes on with the next one."""
    row = store.job(worker.job) if worker.rank else None
    series = 0 if row and row.job.spec.resizes_live else worker.rank
    taken = store.add_points(worker.job, worker.attempt, worker.rank, "report", points, series)
    say_dropped(store, worker.job, taken, now)
    return taken


def say_dropped(store: Store, job: JobId, taken: Taken, now: float) -> None:
    """Once in the life of a job."""
    if taken.dropped:
        cause = f"it has {MOST_SERIES} metrics, the most that are kept of a job: values of further ones are dropped"
        store.note_once(HistoryEvent(now, "metrics_full", cause, job))


def say_missing(store: Store, worker: WorkerId, count: int, now: float) -> None:
    """Once for each worker, at its end."""
    what = "report was" if count == 1 else "reports were"
    cause = f"{count:,} {what} dropped: worker {worker} made more than could be delivered"
    store.note_once(HistoryEvent(now, "reports_dropped", cause, worker.job, worker.attempt), same_cause=True)
