"""What Slurm has run, as `sacct -P` tells it: a past of one's own to compare policies on, before anything is installed.

    sacct -a -X -P --starttime 2026-01-01 -o JobID,JobName,User,Submit,ElapsedRaw,State,AllocCPUS,AllocTRES > past.txt

Steps of jobs, and jobs that never ran or still run, are no jobs of a workload. A job without GPUs keeps its cores busy.
"""

import re
from collections.abc import Sequence

from schedulearn.lab.traces.fields import MOST_GPUS, BadRow, count, duration, shown, timestamp
from schedulearn.lab.traces.table import Rows, Source, header_of, read_table
from schedulearn.lab.traces.types import TraceJob

SEPARATOR = "|"
COLUMNS = ("jobid", "submit")
_OPTIONAL = ("jobname", "user", "state", "elapsedraw", "elapsed", "alloctres", "reqtres", "alloccpus")
EXPECTS = "the output of sacct -P with JobID, Submit, ElapsedRaw and AllocTRES"
_RUNNING = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING")
_ELAPSED = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")
_GPUS = re.compile(r"gres/gpu(?P<kind>:[^=,]*)?=(?P<count>\d+)")
_CPUS = re.compile(r"(?:^|,)cpu=(\d+)")


def recognises(head: str) -> bool:
    header = {*header_of(head, SEPARATOR)}
    has_time, has_size = header & {"elapsed", "elapsedraw"}, header & {"alloctres", "reqtres", "alloccpus"}
    return SEPARATOR in head and {*COLUMNS} <= header and bool(has_time) and bool(has_size)


def read(source: Source) -> Rows[TraceJob]:
    made, problems = read_table(source, COLUMNS, _job, _OPTIONAL, SEPARATOR)
    return [job for job in made if job is not None], problems


def _job(_line: int, fields: Sequence[str]) -> TraceJob | None:
    label, submit, name, user, state, raw, elapsed, allocated, requested, cpus = (field.strip() for field in fields)
    if "." in label or state.startswith(_RUNNING):
        return None
    seconds = duration("ElapsedRaw", raw) if raw else _elapsed(elapsed)
    tres = allocated or requested
    if not seconds or not (tres or cpus):
        return None  # it never ran
    gpus = _gpus(tres)
    return TraceJob(
        label=label,
        arrival=timestamp("Submit", submit),
        duration=seconds,
        gpus=gpus,
        user=user,
        name=name,
        cpus=0.0 if gpus else float(_cpus(cpus, tres)),
    )


def _elapsed(text: str) -> float:
    """`1-02:03:04`, `02:03:04` or `03:04`."""
    found = _ELAPSED.fullmatch(text)
    if found is None:
        raise BadRow(f"Elapsed is not [DAYS-]HH:MM:SS: {shown(text)}")
    part = {name: int(value or 0) for name, value in found.groupdict().items()}
    return float(((part["days"] * 24 + part["hours"]) * 60 + part["minutes"]) * 60 + part["seconds"])


def _gpus(tres: str) -> int:
    """All of them together; Slurm names them once in all, and again by their kind."""
    found = [(one["kind"], int(one["count"])) for one in _GPUS.finditer(tres)]
    total = next((number for kind, number in found if not kind), sum(number for _, number in found))
    if total > MOST_GPUS:
        raise BadRow(f"AllocTRES: {total} GPUs are beyond all measure")
    return total


def _cpus(cpus: str, tres: str) -> int:
    found = _CPUS.search(tres)
    return count("AllocCPUS", cpus) if cpus else int(found[1]) if found else 1
