"""Who this program is: the job, the attempt, the rank, and where its checkpoints belong."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Info:
    job: int
    attempt: int  # counts from 1; higher than 1: an earlier attempt may have left a checkpoint
    worker: str  # "17.2.0"
    rank: int
    world_size: int
    checkpoint_dir: Path | None  # the same path in every attempt


def info() -> Info | None:
    """What is known of the job that this program runs in; None outside of Schedulearn."""
    env = os.environ
    try:
        job, attempt, rank = (int(part) for part in env["SCHEDULEARN_WORKER"].split("."))
    except (KeyError, ValueError):
        return None
    folder = env.get("SCHEDULEARN_CHECKPOINT_DIR")
    return Info(
        job=job,
        attempt=attempt,
        worker=env["SCHEDULEARN_WORKER"],
        # A launcher (Horovod, torchrun) may start several processes in one worker, and gives each its own rank.
        rank=_number(env.get("HOROVOD_RANK") or env.get("RANK"), rank),
        world_size=_number(env.get("WORLD_SIZE"), _number(_control(env).get("world_size"), 1)),
        checkpoint_dir=Path(folder) if folder else None,
    )


def checkpoint_dir(default: str | Path | None = None) -> Path | None:
    """The folder for checkpoints, made if it is not there. Outside of Schedulearn: `default`, made as well."""
    folder = os.environ.get("SCHEDULEARN_CHECKPOINT_DIR") or default
    if not folder:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _control(env: Mapping[str, str]) -> dict[str, object]:
    """The present limits, as the service wrote them; empty if they cannot be read."""
    try:
        data = json.loads(Path(env["SCHEDULEARN_CONTROL"]).read_text("utf-8"))
    except (KeyError, OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _number(value: object, default: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return default
