"""Schedulearn's own history: JSON lines, one finished job a line, in the order of submission.

    {"id": 17, "submitted_at": "2026-03-01T09:30:00Z", "run_seconds": 5400, "gpus": 1,
     "workers": {"min": 1, "want": 2, "max": 4}, "user": "ada", "name": "mnist", "deadline": null}

- `submitted_at`, `deadline`: ISO 8601, or seconds on any one clock. `deadline`, `user`, `name` may be absent or null.
- `run_seconds`: time of running with `want` workers, 0 or more.
- `gpus`: for each worker, as in a job spec; 0 or absent: it runs on cores alone, and takes one slot a worker.
- `workers`: as above, where `want` defaults to `min` and `max` to `want`; or one number; absent: 1.
- `cpus`: cores that a job without GPUs keeps busy when it is alone: it is one container then, and shares its machine
  with others. `run_seconds` is its time alone.
- `model_mb`, `step_seconds`: the size of what its workers exchange in each step, and how long a step takes on one
  node; for what it costs to be on several.
- `gpu_use`: the part of each of its GPUs that it keeps busy when it is alone there, up to 1.
- `curve`: what it reported, `[[part of the work done, value], …]`, the parts rising; `goal`: `min` (usual) or `max`.
- `target`: the value of its curve that is good enough; `then`: `yield` (usual), others go first from then on; `stop`.
- Other keys are ignored.
"""

import json
from math import isfinite
from typing import Any

from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.spec import STOP, YIELD, Target
from schedulearn.lab.traces.fields import BadRow, count, duration, number, positive, shown, timestamp
from schedulearn.lab.traces.table import Rows, Source
from schedulearn.lab.traces.types import Problem, TraceJob

EXPECTS = "JSON lines with id, submitted_at, run_seconds"


def recognises(head: str) -> bool:
    return head.lstrip().startswith("{")


def read(source: Source) -> Rows[TraceJob]:
    jobs: list[TraceJob] = []
    problems: list[Problem] = []
    for line, text in enumerate(source.lines, 1):
        if not text or text.isspace():
            continue
        try:
            jobs.append(_job(_record(text)))
        except BadRow as error:
            problems.append(Problem(line, str(error)))
    return jobs, problems


def _record(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRow(f"is not JSON: {shown(text)}") from None
    if not isinstance(record, dict):
        raise BadRow(f"is not a JSON object: {shown(text)}")
    return record


def _job(record: dict[str, Any]) -> TraceJob:
    least, want, most = _workers(record.get("workers"))
    slots, cpus = _slots(record.get("gpus")), _cpus(record)
    return TraceJob(
        label=_label(record.get("id")),
        arrival=_moment("submitted_at", record.get("submitted_at")),
        duration=duration("run_seconds", _plain("run_seconds", record.get("run_seconds"))),
        gpus=0 if cpus else slots * want,
        user=_word("user", record.get("user")),
        name=_word("name", record.get("name")),
        deadline=None if record.get("deadline") is None else _moment("deadline", record["deadline"]),
        workers=None if cpus else (slots * least, slots * most),
        model_bytes=None if (size := _amount(record, "model_mb")) is None else size * 1e6,
        step_seconds=_amount(record, "step_seconds"),
        gpu_use=_gpu_use(record),
        cpus=cpus,
        learning=_curve(record),
        target=_target(record),
    )


def _cpus(record: dict[str, Any]) -> float:
    """0: it takes GPUs, or slots."""
    if record.get("cpus") is None:
        return 0.0
    if record.get("gpus") or record.get("workers") not in (None, 1):
        raise BadRow("cpus is for jobs without GPUs and with one worker")
    return positive("cpus", _plain("cpus", record["cpus"]))


def _amount(record: dict[str, Any], field: str) -> float | None:
    return None if record.get(field) is None else positive(field, _plain(field, record[field]))


def _gpu_use(record: dict[str, Any]) -> float | None:
    use = _amount(record, "gpu_use")
    if use is not None and use > 1:
        raise BadRow(f"gpu_use is a part of a GPU, not {use:g}")
    return use


def _curve(record: dict[str, Any]) -> LearningCurve | None:
    points, goal = record.get("curve"), record.get("goal", "min")
    if points is None:
        return None
    if goal not in ("min", "max"):
        raise BadRow(f"goal must be min or max, not {shown(goal)}")
    try:
        pairs = [(float(part), float(value)) for part, value in points]
        if not all(isfinite(number) for pair in pairs for number in pair):
            raise ValueError("a point is not finite")
        return LearningCurve(pairs, goal)
    except (TypeError, ValueError) as error:
        raise BadRow(f"curve is not a list of points [part, value] with rising parts: {shown(str(error))}") from None


def _target(record: dict[str, Any]) -> Target | None:
    if record.get("target") is None:
        return None
    if record.get("curve") is None:
        raise BadRow("target is for jobs with a curve")
    then = record.get("then", YIELD)
    if then not in (YIELD, STOP):
        raise BadRow(f"then must be {YIELD} or {STOP}, not {shown(then)}")
    return Target(number("target", _plain("target", record["target"])), then)


def _workers(given: object) -> tuple[int, int, int]:
    if given is None:
        return 1, 1, 1
    if not isinstance(given, dict):
        fixed = count("workers", _plain("workers", given))
        return fixed, fixed, fixed
    sizes = {key: count(f"workers.{key}", _plain(f"workers.{key}", n)) for key, n in given.items() if n is not None}
    least = sizes.get("min", 1)
    want = sizes.get("want", least)
    most = sizes.get("max", want)
    if not least <= want <= most:
        raise BadRow(f"workers must be min ≤ want ≤ max, not {least}, {want}, {most}")
    return least, want, most


def _slots(gpus: object) -> int:
    """What one worker takes: its GPUs, or one slot if it has none."""
    if gpus is None or (gpus == 0 and not isinstance(gpus, bool)):
        return 1
    return count("gpus", _plain("gpus", gpus))


def _moment(field: str, value: object) -> float:
    return timestamp(field, value) if isinstance(value, str) else number(field, _plain(field, value))


def _plain(field: str, value: object) -> str:
    """The text of a JSON number, so that numbers are checked in one place."""
    if value is None:
        raise BadRow(f"{field} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRow(f"{field} is not a number: {shown(value)}")
    return repr(value)


def _label(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise BadRow("id is missing" if value in (None, "") else f"id is not a number or a word: {shown(value)}")
    return str(value)


def _word(field: str, value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise BadRow(f"{field} is not a text: {shown(value)}")
    return value or ""
