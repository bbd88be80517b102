"""Jobs as in SymbioticLab/Tiresias; and its lists of GPU-times, the data of the Gittins index."""

from collections.abc import Sequence
from pathlib import Path

from schedulearn.domain.errors import InvalidSpec
from schedulearn.traces.fields import BadRow, count, duration, number
from schedulearn.traces.table import Rows, Source, read_lines, read_table
from schedulearn.traces.types import TraceJob

COLUMNS = ("submit_time", "num_gpu", "duration")


def read(source: Source) -> Rows[TraceJob]:
    return read_table(source, COLUMNS, _job, optional=("job_id", "model_name"))


def _job(line: int, fields: Sequence[str]) -> TraceJob:
    when, gpus, seconds, label, model = fields
    return TraceJob(
        label=label.strip() or str(line),
        arrival=number("submit_time", when),
        duration=duration("duration", seconds),
        gpus=count("num_gpu", gpus),
        name=model.strip(),
    )


def read_gputimes(path: Path) -> tuple[float, ...]:
    """GPU-seconds of completed jobs, ascending, from a file with one number a line below a header (or none).

    A distribution with holes would be a wrong one: a line that is no number is an error, not a warning.
    """
    rows = [(line, text.strip()) for line, text in enumerate(read_lines(path), 1) if text.strip()]
    if rows and _is_header(rows[0][1]):
        rows.pop(0)
    if not rows:
        raise InvalidSpec("trace", f"{path} has no GPU-times", "one number a line below a header")
    try:
        return tuple(sorted(duration(f"line {line}", text) for line, text in rows))
    except BadRow as error:
        raise InvalidSpec("trace", f"{path}: {error}", "GPU-seconds, one number a line") from error


def _is_header(text: str) -> bool:
    """A header is a word; `nan` and `-5` are bad numbers, to be told as such."""
    try:
        float(text)
    except ValueError:
        return text[:1].isalpha() or text[:1] in '"_'
    return False
