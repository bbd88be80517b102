"""Microsoft's Philly cluster as petuum/adaptdl reduced it: one row a job, not sorted by time, without ids.

The order of the file is the serial order; a job's label is its line. Its virtual cluster stands for its user.
"""

from collections.abc import Sequence

from schedulearn.lab.traces.fields import count, duration, timestamp
from schedulearn.lab.traces.table import Rows, Source, read_table
from schedulearn.lab.traces.types import TraceJob

COLUMNS = ("timestamp", "duration", "num_gpus")


def read(source: Source) -> Rows[TraceJob]:
    return read_table(source, COLUMNS, _job, optional=("cluster",))


def _job(line: int, fields: Sequence[str]) -> TraceJob:
    when, seconds, gpus, cluster = fields
    return TraceJob(
        label=str(line),
        arrival=timestamp("timestamp", when),
        duration=duration("duration", seconds),
        gpus=count("num_gpus", gpus),
        user=cluster.strip(),
    )
