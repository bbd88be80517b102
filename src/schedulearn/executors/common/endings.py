"""The record that every worker leaves of its end, and the Outcome that the core understands."""

from dataclasses import dataclass
from typing import Any

from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.executors.common.keys import genuine, worker_key
from schedulearn.executors.common.paths import WorkerPaths, read_json, write_json
from schedulearn.executors.common.shortage import shortage
from schedulearn.executors.common.signed import EXIT, signed


@dataclass(frozen=True, slots=True)
class End:
    """How a worker ended and when; `at` is None when that was not noted."""

    outcome: Outcome
    at: float | None = None
    steady: float | None = None  # the same in seconds since the boot of the machine, where that is known
    boot_id: str = ""  # of that boot


def read_end(paths: WorkerPaths) -> End | None:
    """None: there is no record, or none that a shim or an executor of this service has signed."""
    try:
        record = read_json(paths.exit)
    except (FileNotFoundError, ValueError):
        return None
    if "at" not in record or not genuine(record, EXIT, paths.folder):
        return None
    return End(_outcome(record), float(record["at"]), record.get("steady"), record.get("boot_id", ""))


def write_end(paths: WorkerPaths, end: End) -> None:
    """For executors without a shim, which writes its record itself."""
    outcome = end.outcome
    record = {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "oom": outcome.ending is Ending.OUT_OF_MEMORY,
        "memory_limit": outcome.memory_limit,
        "at": end.at,
        "detail": outcome.detail,
        "not_started": outcome.ending is Ending.NOT_STARTED,
        "lost": outcome.ending is Ending.LOST,
        "short_of": outcome.detail if outcome.ending is Ending.NODE_FAULT else "",
    }
    write_json(paths.exit, signed(record, EXIT, worker_key(paths.folder)))


def _outcome(record: dict[str, Any]) -> Outcome:
    if short_of := shortage(record.get("errno")) or record.get("short_of"):
        return Outcome(Ending.NODE_FAULT, detail=short_of)
    if record["not_started"]:
        return Outcome(Ending.NOT_STARTED, detail=record["detail"])
    if record.get("lost"):
        return Outcome(Ending.LOST, detail=record["detail"])
    if record["oom"]:
        limit, number = record["memory_limit"], record["signal"]
        return Outcome(Ending.OUT_OF_MEMORY, record["exit_code"], number, limit, record["detail"])
    if record["signal"] is not None:
        return Outcome(Ending.SIGNALLED, signal=record["signal"], detail=record["detail"])
    return Outcome(Ending.EXITED, exit_code=record["exit_code"], detail=record["detail"])
