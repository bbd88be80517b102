"""When would the jobs there are now end, under the policy in force and under others? See `docs/simulator.md`.

A job takes what is estimated of it, and once more the low, and once more the high end of that: hence a range. One that
nothing is known of takes as long as the median of the others; policies are told nothing of it.

`python -m schedulearn.lab.sim.what_if PRESENT POLICY…` writes `report.json` into the current folder.
"""

import json
import math
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from schedulearn.core.control.present import Present
from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import FINISHED
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET, build_policy
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.report.files import write_summary
from schedulearn.lab.sim.ahead import Ahead
from schedulearn.wire import types
from schedulearn.wire.words import duration, iso

PROGRESS = "progress.json"
_ASSUMED = 3600.0  # seconds that jobs take where nothing is known of any
_LEAST = 1.0  # second that a job still takes, also one that should have ended by now
_MOST_LISTED = 500  # jobs
_SCENARIOS: Sequence[Callable[[Estimate], float]] = (lambda e: e.expected, lambda e: e.low, lambda e: e.high)

Finishes = Mapping[JobId, types.Finish]


def policies_of(present: Present, names: Sequence[str]) -> dict[str, Policy]:
    """The one in force, as it is set up, then the others as they come."""
    setting = present.policy or {"preset": DEFAULT_PRESET}
    in_force = build_policy(setting["preset"], setting.get("stages"), setting.get("params"))
    return {in_force.preset: in_force} | {name: build_policy(name) for name in names if name != in_force.preset}


def finishes(present: Present, policy: Policy) -> Finishes:
    """Of each job that ends as expected; from now."""
    lengths = _lengths(present)
    is_certain = all(len(set(scenarios)) == 1 for scenarios in lengths.values())
    runs = [
        Ahead(present, policy, {job: scenarios[index] for job, scenarios in lengths.items()}).ends()
        for index in range(1 if is_certain else len(_SCENARIOS))
    ]
    expected = runs[0]
    return {job: _finish(at, [run[job] for run in runs if job in run]) for job, at in expected.items()}


def _finish(expected: float, all_of_them: Sequence[float]) -> types.Finish:
    return types.Finish(low=min(all_of_them), expected=expected, high=max(all_of_them))


def _lengths(present: Present) -> dict[JobId, tuple[float, ...]]:
    """Seconds that each job still takes, in each scenario."""
    unknown = assumed(present)
    return {job.id: tuple(_length(present, job, pick, unknown) for pick in _SCENARIOS) for job in present.jobs}


def _length(present: Present, job: Job, pick: Callable[[Estimate], float], unknown: float) -> float:
    estimate = present.outlook[job.id].left if job.id in present.outlook else None
    if estimate:
        return max(_LEAST, pick(estimate))
    limit = math.inf if job.time_limit is None else job.time_limit - job.ran.at(present.now)
    return max(_LEAST, min(unknown, limit))


def assumed(present: Present) -> float:
    """Seconds that a job takes of which nothing is known."""
    return median([max(_LEAST, o.left.expected) for o in present.outlook.values() if o.left] or [_ASSUMED])


def prediction(present: Present, found: Mapping[str, Finishes]) -> types.Prediction:
    """What is told of it, the job that ends first under the policy in force first."""
    labels, jobs = list(found), [job for job in present.jobs if job.state not in FINISHED]
    first, never = found[labels[0]], types.Finish(low=math.inf, expected=math.inf, high=math.inf)
    jobs.sort(key=lambda job: (first.get(job.id, never)["expected"], job.id))
    common = [job.id for job in jobs if all(job.id in ends for ends in found.values())]
    unknown = [job.id for job in jobs if present.outlook[job.id].left is None]
    return types.Prediction(
        at=iso(present.now),
        policies=labels,
        jobs=[_predicted(present, job, found) for job in jobs[:_MOST_LISTED]],
        total=len(jobs),
        average={label: _mean([ends[job] for job in common]) for label, ends in found.items()},
        averaged=len(common),
        unknown=len(unknown),
        assumed_seconds=assumed(present) if unknown else None,
    )


def _predicted(present: Present, job: Job, found: Mapping[str, Finishes]) -> types.PredictedJob:
    outlook = present.outlook[job.id]
    resizable = job.shape.workers.min < job.shape.workers.max
    return types.PredictedJob(
        job=job.id,
        name=job.spec.name,
        user=job.user,
        state=job.state.value,
        source=outlook.left.source if outlook.left else None,
        speedup_assumed=resizable and not outlook.known.speedup,
        finishes={label: ends.get(job.id) for label, ends in found.items()},
    )


def _mean(ends: Sequence[types.Finish]) -> types.Finish | None:
    if not ends:
        return None
    low, expected, high = (fmean(end[which] for end in ends) for which in ("low", "expected", "high"))
    return types.Finish(low=low, expected=expected, high=high)


def _write(told: types.Prediction) -> None:
    """As other reports, with what is predicted of each job besides."""
    averages = [(label, told["average"][label]) for label in told["policies"]]
    best = min((end["expected"] for _, end in averages if end), default=math.inf)
    rows = [[label, duration(end["expected"]) if end else ""] for label, end in averages]
    path = write_summary(
        Path(),
        "what-if",
        "the queue now",
        f"{told['averaged']} jobs, averages of the time until they end",
        ["policy", "average completion"],
        rows,
        [[False, end is not None and end["expected"] == best] for _, end in averages],
    )
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "prediction": told}), "utf-8")


def main(words: Sequence[str]) -> int:
    """Our own file, written by the process that started this one, and nobody else's: so it may be unpickled."""
    file, names = Path(words[0]), words[1:]
    present: Present = pickle.loads(file.read_bytes())
    file.unlink()  # it holds what jobs there are
    found: dict[str, Finishes] = {}
    policies = policies_of(present, names)
    for done, (label, policy) in enumerate(policies.items()):
        told: dict[str, Any] = {"policy": label, "done": done, "total": len(policies)}
        Path(PROGRESS).write_text(json.dumps(told), "utf-8")
        try:
            found[label] = finishes(present, policy)
        except Exception as error:  # whatever a policy does, the others are told
            problem = str(error) if isinstance(error, SchedulearnError) else f"{type(error).__name__}: {error}"
            sys.stderr.write(f"error: the policy {label} failed: {problem}\n")
    if not found:
        return 1
    _write(prediction(present, found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
