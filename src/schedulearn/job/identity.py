"""What this program is part of: job, attempt, rank, its place in the group, and where its checkpoints belong."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from schedulearn.job.control import read_control


@dataclass(frozen=True)
class Info:
    job: int
    attempt: int  # counts from 1; higher than 1: an earlier attempt may have left a checkpoint
    worker: str  # "17.2.0"
    rank: int
    world_size: int
    checkpoint_dir: Path | None  # the same path in every attempt


class Place(NamedTuple):
    """Where this process stands among those that train together."""

    rank: int | None  # among them; 0 leads: it saves; None: this worker has to leave
    size: int


def info() -> Info | None:
    """What is known of the job that this program runs in; None outside of Schedulearn."""
    env = os.environ
    worker = _worker()
    if worker is None:
        return None
    job, attempt, rank = worker
    folder = env.get("SCHEDULEARN_CHECKPOINT_DIR")
    return Info(
        job=job,
        attempt=attempt,
        worker=env["SCHEDULEARN_WORKER"],
        # A launcher (Horovod, torchrun) may start several processes in one worker, and gives each its own rank.
        rank=_number(env.get("HOROVOD_RANK") or env.get("RANK"), rank),
        world_size=_number(env.get("HOROVOD_SIZE") or env.get("WORLD_SIZE"), read_control().world_size),
        checkpoint_dir=Path(folder) if folder else None,
    )


def place() -> Place:
    """The place of this process now. It changes while a job runs whose workers come and go."""
    if "HOROVOD_RANK" in os.environ:  # all its processes are in worker 0
        return Place(_number(os.environ["HOROVOD_RANK"], 0), _number(os.environ.get("HOROVOD_SIZE"), 1))
    rank, size = _number(os.environ.get("RANK"), 0), _number(os.environ.get("WORLD_SIZE"), 1)
    worker = _worker()
    if worker is None or "SCHEDULEARN_CONTROL" not in os.environ:
        return Place(rank, size)
    own, control = worker[2], read_control()
    # A launcher inside the worker gives ranks of its own. The service gives the worker's rank; only the number of
    # workers, which cannot change in the environment of a program that runs, may be out of date.
    launched = "RANK" in os.environ and (rank != own or (control.generation == 0 and size != control.world_size))
    return Place(rank, size) if launched else Place(control.index(own), control.world_size)


def checkpoint_dir(default: str | Path | None = None) -> Path | None:
    """The folder for checkpoints, made if it is not there. Outside of Schedulearn: `default`, made as well."""
    folder = os.environ.get("SCHEDULEARN_CHECKPOINT_DIR") or default
    if not folder:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _worker() -> tuple[int, int, int] | None:
    """Job, attempt and rank of this worker."""
    try:
        job, attempt, rank = (int(part) for part in os.environ["SCHEDULEARN_WORKER"].split("."))
    except (KeyError, ValueError):
        return None
    return job, attempt, rank


def _number(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default
