"""What the service really ran, as a workload: the lines that it tells, in the format of `traces.history`."""

from collections.abc import Iterable
from pathlib import Path

from schedulearn.lab.traces import history
from schedulearn.lab.traces.table import Source
from schedulearn.lab.traces.types import Workload


def workload_of(lines: Iterable[str]) -> Workload:
    """The finished jobs that have run, in the order of submission."""
    made, problems = history.read(Source(Path("history"), list(lines)))
    return Workload("history", made, tuple(problems))
