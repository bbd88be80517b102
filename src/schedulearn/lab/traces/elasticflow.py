"""Jobs of Microsoft's ITP clusters with generated models and deadlines (microsoft/elasticflow-traces).

The deadline is absolute, on the clock of the submission times; about half of them are tighter than the job's duration.
"""

from collections.abc import Sequence

from schedulearn.lab.traces.fields import count, duration, number
from schedulearn.lab.traces.table import Rows, Source, read_table
from schedulearn.lab.traces.types import TraceJob

COLUMNS = ("submission_time", "num_gpu", "duration", "deadline")


def read(source: Source) -> Rows[TraceJob]:
    return read_table(source, COLUMNS, _job, optional=("job_id", "model_name"))


def _job(line: int, fields: Sequence[str]) -> TraceJob:
    when, gpus, seconds, deadline, label, model = fields
    return TraceJob(
        label=label.strip() or str(line),
        arrival=number("submission_time", when),
        duration=duration("duration", seconds),
        gpus=count("num_gpu", gpus),
        name=model.strip(),
        deadline=number("deadline", deadline),
    )
