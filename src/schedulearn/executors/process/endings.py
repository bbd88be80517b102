"""From the files that a shim leaves to the Outcome that the core understands."""

import json
import signal
from dataclasses import dataclass
from typing import Any

from schedulearn.domain.outcome import Ending, Outcome
from schedulearn.executors.process.claim import Claim, read_claim
from schedulearn.executors.process.paths import WorkerPaths
from schedulearn.executors.process.procfs import boot_id


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended and when; `at` is None when nobody looked at a clock."""

    outcome: Outcome
    at: float | None = None


def end_of(paths: WorkerPaths) -> End:
    """How a worker ended whose claim nobody holds."""
    record = _read_exit(paths)
    if record is not None:
        return End(_outcome(record), float(record["at"]))
    return End(_without_record(read_claim(paths.claim)))


def _read_exit(paths: WorkerPaths) -> dict[str, Any] | None:
    try:
        record = json.loads(paths.exit.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) and "at" in record else None


def _outcome(record: dict[str, Any]) -> Outcome:
    if record["not_started"]:
        return Outcome(Ending.NOT_STARTED, detail=record["detail"])
    if record["oom"]:
        limit, number = record["memory_limit"], record["signal"]
        return Outcome(Ending.OUT_OF_MEMORY, record["exit_code"], number, limit, record["detail"])
    if record["signal"] is not None:
        return Outcome(Ending.SIGNALLED, signal=record["signal"], detail=record["detail"])
    return Outcome(Ending.EXITED, exit_code=record["exit_code"], detail=record["detail"])


def _without_record(claim: Claim | None) -> Outcome:
    if claim is None or claim.void:
        return Outcome(Ending.LOST, detail="it was never started")
    if claim.boot_id != boot_id():
        return Outcome(Ending.LOST, detail="the machine was restarted")
    return Outcome(Ending.SIGNALLED, signal=signal.SIGKILL, detail="its supervisor was killed")
