"""Jobs as in SymbioticLab/Tiresias."""

from collections.abc import Sequence

from schedulearn.lab.traces.fields import count, duration, number
from schedulearn.lab.traces.table import Rows, Source, read_table
from schedulearn.lab.traces.types import TraceJob

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
