"""A schedule that fails, made as small as it gets: delta debugging over its events."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from support.faults.invariants import broken
from support.faults.run import Run
from support.faults.schedule import Event, Schedule
from support.scratch import in_memory


def played(schedule: Schedule) -> list[str]:
    """What is wrong after this schedule; nothing, as a rule."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        run = Run(schedule, Path(folder) / "data")
        try:
            run.play()
            return broken(run)
        finally:
            run.close()


def kind_of(problem: str) -> str:
    """The problem without its numbers: the same one with other jobs and at another time."""
    return re.sub(r"[0-9][0-9.]*", "#", problem)


def smaller(schedule: Schedule, problem: str, most_tries: int = 300) -> Schedule:
    """Without the events that it fails in the same way without."""
    tries = iter(range(most_tries))
    wanted = kind_of(problem)

    def fails(events: tuple[Event, ...]) -> bool:
        if next(tries, None) is None:
            return False
        return wanted in map(kind_of, played(replace(schedule, events=events)))

    return replace(schedule, events=_fewest(schedule.events, fails))


def _fewest(events: tuple[Event, ...], fails: Callable[[tuple[Event, ...]], bool]) -> tuple[Event, ...]:
    """Large pieces are left out first, then smaller ones, until no single event can be."""
    size = max(1, len(events) // 2)
    while True:
        start = 0
        while start < len(events):
            without = events[:start] + events[start + size :]
            if fails(without):
                events = without
            else:
                start += size
        if size == 1:
            return events
        size //= 2
