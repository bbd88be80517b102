"""Workloads of Pollux (petuum/adaptdl): real models whose durations, speed-ups and learning curves were measured.

A job's batch size is fixed, unless all are to adapt theirs (`Source.goodput`). Its duration is its iterations to the
last epoch times the step time with the replicas that its user asked for.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.traces.adaptive import Adaptive
from schedulearn.lab.traces.fields import count, number
from schedulearn.lab.traces.profiles import MOST_BATCH, PlacedSpeed, Profiles
from schedulearn.lab.traces.table import Rows, Source, read_table
from schedulearn.lab.traces.types import TraceJob

MOST_WORKERS = 64  # of any job, as in Pollux's own simulations
COLUMNS = ("time", "application", "num_replicas", "batch_size")


def read(source: Source) -> Rows[TraceJob]:
    folder = source.profiles or source.path.parent / "profiles"
    if not folder.is_dir():
        problem = f"a pollux workload needs the measured profiles of its models, and there is no folder {folder}"
        raise InvalidSpec("profiles", problem, "a folder with MODEL/placements.csv and MODEL/validation-B.csv")
    profiles = Profiles(folder)

    @cache  # a few models and batch sizes make up a whole workload
    def curves(model: str, batch: int) -> tuple[SpeedUp, PlacedSpeed, LearningCurve]:
        profile = profiles.get(model)
        speedup = profile.speedup(batch)
        return speedup, PlacedSpeed(profile, batch, profile.step_time(1, batch)), profile.learning(batch)

    @cache
    def adaptive(model: str, gpus: int) -> Adaptive:
        return Adaptive(profiles.get(model), gpus)

    def job(line: int, fields: Sequence[str]) -> TraceJob:
        when, model, replicas, size, label = (field.strip() for field in fields)
        gpus, batch = count("num_replicas", replicas), count("batch_size", size, MOST_BATCH)
        profile = profiles.get(model)
        seconds = profile.iterations(batch, by_progress=source.by_progress) * profile.step_time(gpus, batch)
        speedup, placed, learning = curves(model, batch)
        fixed = TraceJob(
            label=label or str(line),
            arrival=number("time", when),
            duration=seconds,
            gpus=gpus,
            name=model,
            command=("train", model, f"--batch-size={batch}"),
            workers=(1, min(MOST_WORKERS, speedup.most)),
            speedup=speedup,
            placed=placed,
            gpu_use=profile.gpu_use(gpus, batch),
            learning=learning,
            announced=1.0,  # of its epochs
        )
        return _adapting(fixed, adaptive(model, gpus), batch) if source.goodput else fixed

    jobs, problems = read_table(source, COLUMNS, job, optional=("name",))
    return jobs, problems + profiles.problems


def _adapting(fixed: TraceJob, adaptive: Adaptive, batch: int) -> TraceJob:
    """The same job with its batch size open: it trains as far, by statistical progress."""
    assert fixed.learning is not None
    metrics = [value for _, value in fixed.learning.points()]
    return replace(
        fixed,
        duration=adaptive.duration,
        workers=(1, min(MOST_WORKERS, adaptive.most)),
        speedup=None,
        placed=None,
        learning=LearningCurve(zip(adaptive.ends, metrics, strict=True), fixed.learning.goal),
        batch=batch,
        adaptive=adaptive,
    )
