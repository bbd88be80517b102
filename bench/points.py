"""A million points of one metric: to store them in batches, and to read the curve."""

from bench.figures import Figures, median, percentile, stopwatch, timed
from bench.service import folder
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.spec import JobSpec
from schedulearn.store import Cycle, Point, Store, open_store

_BATCHES, _BATCH = 1000, 1000


def measure() -> Figures:
    figures = Figures(f"{_BATCHES * _BATCH:,} points in one series")
    with folder() as root, open_store(root / "schedulearn.db") as store:
        job = _running_job(store)
        took: list[float] = []
        for number in range(_BATCHES):
            batch = _batch(number)
            with stopwatch(took):
                store.add_points(job, 1, 0, "report", batch)
        figures.add("to store all", sum(took), "s")
        figures.add("points stored a second", _BATCHES * _BATCH / sum(took))
        figures.add_times(f"one batch of {_BATCH:,}", took)
        first, last = percentile(took[1:100], 50), percentile(took[-99:], 50)
        figures.add("the last batches", last * 1e3, "ms", against=f"{last / first:.1f} × as the first")
        for most in (500, 2000):
            reads = [timed(lambda most=most: store.curve(job, "loss", most)) for _ in range(20)]
            figures.add(f"to read the curve, {most:,} points", median(reads) * 1e3, "ms")
        figures.add("to read the latest value (series_of)", timed(lambda: store.series_of(job)) * 1e3, "ms")
        figures.add("size of the database", (root / "schedulearn.db").stat().st_size / 1e6, "MB")
    return figures


def _running_job(store: Store) -> JobId:
    fence = store.take_role("scheduler", "bench", 0.0, 60.0, steal=True)
    job = store.add_job(JobSpec("train", "true"), "bench", 0.0, "submitted")
    attempt = Attempt(AttemptId(job, 1), 0.0, [Worker(WorkerId(job, 1, 0), NodeName("local"))])
    store.save_cycle(Cycle(fence, attempts=[attempt]))
    return job


def _batch(number: int) -> list[Point]:
    first = number * _BATCH
    return [Point(seq, float(seq), seq, "loss", 1.0 / (seq + 1)) for seq in range(first, first + _BATCH)]
