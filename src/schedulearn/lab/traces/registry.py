"""Where workloads come from: the known formats, and `load` for all of them and for the generator."""

from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces import elasticflow, history, philly, pollux, sacct, synthetic, tiresias
from schedulearn.lab.traces.fields import shown
from schedulearn.lab.traces.table import Format, Source, csv_format, read_lines
from schedulearn.lab.traces.types import Problem, Workload

FORMATS: dict[str, Format] = {
    "philly": csv_format(philly.COLUMNS, philly.read),
    "elasticflow": csv_format(elasticflow.COLUMNS, elasticflow.read),
    "pollux": csv_format(pollux.COLUMNS, pollux.read),
    "tiresias": csv_format(tiresias.COLUMNS, tiresias.read),
    "sacct": Format(sacct.recognises, sacct.EXPECTS, sacct.read),
    "schedulearn": Format(history.recognises, history.EXPECTS, history.read),
}

SHOWN_PROBLEMS = 5  # an error names the first few lines


def load(
    source: str,
    *,
    format: str | None = None,
    profiles: Path | None = None,
    strict: bool = False,
    jobs: int | None = None,
    gpus: int | None = None,
    by_progress: bool = False,
    goodput: bool = False,
) -> Workload:
    """The workload of a file, or of `synthetic:NAME?…`.

    Rows that cannot be used are in `problems`; with `strict` they are an error. `jobs` keeps the first so many by
    arrival. `gpus` is the cluster's number, for a generator whose query does not say it. For `by_progress` and
    `goodput` see `Source`.
    """
    if jobs is not None and jobs < 1:
        raise InvalidSpec("jobs", f"must be at least 1, not {jobs}")
    if synthetic.is_synthetic(source):
        return _first(synthetic.generate(source, gpus=gpus, jobs=jobs), jobs)
    path = Path(source)
    file = Source(path, read_lines(path), profiles, by_progress, goodput)
    if not file.head:
        raise InvalidSpec("trace", f"{path} is empty")
    made, problems = _format(file, format).read(file)
    if problems and (strict or not made):
        what = f"{path} has {len(problems)} malformed rows" if made else f"no row of {path} can be used"
        raise InvalidSpec("trace", f"{what}: {_told(problems)}")
    if not made:
        raise InvalidSpec("trace", f"{path} has a header and no jobs")
    return _first(Workload(path.stem, made, tuple(problems)), jobs)


def _format(file: Source, name: str | None) -> Format:
    if name is None:
        for known in FORMATS.values():
            if known.recognises(file.head):
                return known
        raise InvalidSpec(
            "trace", f"cannot tell the format of {file.path} by its first line {shown(file.head)}", _known()
        )
    if name not in FORMATS:
        near = get_close_matches(name, FORMATS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidSpec("format", f"unknown: {shown(name)}{hint}", ", ".join(FORMATS))
    return FORMATS[name]


def _known() -> str:
    return "; ".join(f"{name} with {form.expects}" for name, form in FORMATS.items())


def _told(problems: list[Problem]) -> str:
    told = [f"line {problem.line}: {problem.text}" for problem in islice(problems, SHOWN_PROBLEMS)]
    more = len(problems) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _first(workload: Workload, jobs: int | None) -> Workload:
    """The first so many by arrival, ties by the order of the file, which they keep."""
    if jobs is None or jobs >= len(workload.jobs):
        return workload
    by_arrival = sorted(range(len(workload.jobs)), key=lambda serial: workload.jobs[serial].arrival)
    return Workload(workload.name, [workload.jobs[serial] for serial in sorted(by_arrival[:jobs])], workload.problems)
