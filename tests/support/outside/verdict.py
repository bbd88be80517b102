"""What must hold when all is over: the service's word against the diaries of the jobs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from support.outside.diary import FAILED, Line
from support.outside.plan import JobPlan
from support.outside.users import Known


class Ending(NamedTuple):
    """What the service says of a job in the end."""

    id: int
    state: str
    attempt: int
    output: str | None = None  # of the last attempt's first worker; None: it may be incomplete


def problems(job: JobPlan, known: Known, endings: Sequence[Ending], diary: Sequence[Line]) -> list[str]:
    """Whatever is wrong with one job."""
    found = [*_counted(job, known, endings), *_overlaps(diary)]
    for ending in endings:
        if ending.state not in allowed(job, known):
            found.append(f"it is {ending.state}, which it should not be")
        found += _ran_as_told(job, known, ending, diary)
    return [f"{job.name}: {problem}" for problem in found]


def allowed(job: JobPlan, known: Known) -> set[str]:
    """How it may have ended, after what was done to it."""
    states = {job.natural}
    if known.cancel_tried or known.rm_tried:
        states.add("cancelled")
    if known.hits > job.restarts:
        states.add("failed")
    return states


def _counted(job: JobPlan, known: Known, endings: Sequence[Ending]) -> Iterator[str]:
    if len(endings) > 1:
        yield f"one submission made {len(endings)} jobs: {', '.join(str(one.id) for one in endings)}"
    if known.rm_done and endings:
        yield "it was removed, and is there"
    if known.id and not known.rm_tried and not endings:
        yield f"job {known.id} is lost"


def _overlaps(diary: Sequence[Line]) -> Iterator[str]:
    for line in diary:
        if line.what == "overlap":
            yield f"attempt {line.attempt} of worker {line.rank} ran beside another"
    begun = [(line.attempt, line.rank) for line in diary if line.what == "begin"]
    for attempt, rank in sorted(set(begun)):
        if begun.count((attempt, rank)) > 1:
            yield f"attempt {attempt} of worker {rank} was started {begun.count((attempt, rank))} times"
    yield from _by_time(diary)


def _by_time(diary: Sequence[Line]) -> Iterator[str]:
    """Attempts whose workers were there at the same time, as far as they lived to tell."""
    spans: dict[int, list[float]] = {}
    for line in diary:
        spans.setdefault(line.attempt, []).append(line.at)
    last, until = 0, 0.0
    for attempt, times in sorted(spans.items()):
        if min(times) < until:
            yield f"attempt {attempt} began before attempt {last} was over"
        last, until = attempt, max(until, *times)


def _ran_as_told(job: JobPlan, known: Known, ending: Ending, diary: Sequence[Line]) -> Iterator[str]:
    ended = [line for line in diary if line.what == "end"]
    if ending.state == "succeeded":
        of_last = {line.rank for line in ended if line.attempt == ending.attempt and line.code == 0}
        if of_last != set(range(job.workers)):
            yield f"it is called succeeded, but of attempt {ending.attempt} only {sorted(of_last)} came to their end"
        if ending.output is not None and ending.output != f"begin {ending.attempt}\nend {ending.attempt}\n":
            yield f"its output is {ending.output!r}"
    if known.hits:
        return  # whose supervisor was killed after its end may run once more
    if len({line.attempt for line in ended if line.code == 0}) > 1:
        yield "it ran again after it had succeeded"
    if ending.state == "failed" and not diary and not job.time_limit:  # a short limit may end it before its first word
        yield "it is called failed, and never ran"
    if ending.state == "failed" and job.code == FAILED and len(ended) != job.restarts + 1:
        yield f"it failed after {len(ended)} runs, and has {job.restarts} restarts"
