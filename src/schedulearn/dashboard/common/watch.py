"""Watching one job: each look asks only for what can have changed since the last one."""

import codecs
import time
from dataclasses import dataclass, field

from schedulearn.client import FINISHED, Client, types
from schedulearn.wire.clean import ESCAPES

_USAGE_EVERY = 5.0  # seconds: the service looks at workers no more often
_EXPLAIN_EVERY = 3.0
_TAIL = 1000  # lines of output that a page begins with
_MOST_ATTEMPTS = 20  # whose use is shown
_MOST_CURVES, _MOST_WORKERS = 50, 100  # that are shown


class OutputReader:
    """The output of one worker, attempt after attempt, as text: what was added since the last look."""

    def __init__(self, job: int, worker: int = 0) -> None:
        self._job, self._worker = job, worker
        self._attempt, self._offset = 0, 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, client: Client, newest: int) -> str:
        if not newest:
            return ""
        text = ""
        if newest != self._attempt:
            if self._attempt:  # the end of the one before
                text = self._more(client)
            self._attempt, tail = newest, _TAIL
            data, self._offset = client.log_part(self._job, newest, self._worker, tail=tail)
            self._decode.reset()
            text += (f"\n— attempt {newest} —\n" if newest > 1 else "") + self._decode.decode(data)
        else:
            text = self._more(client)
        return plain(text)

    def _more(self, client: Client) -> str:
        data, self._offset = client.log_part(self._job, self._attempt, self._worker, offset=self._offset)
        return self._decode.decode(data)


def plain(text: str) -> str:
    """Without colours and without what a progress bar has overwritten."""
    *lines, last = ESCAPES.sub("", text).split("\n")
    return "\n".join([*(_left_of(line.removesuffix("\r")) for line in lines), _left_of(last)])


def _left_of(line: str) -> str:
    """Each return goes back to the beginning of the line."""
    return line[line.rfind("\r") + 1 :]


@dataclass(slots=True)
class JobWatch:
    """All that a job's page shows, and what it needs to ask for less the next time."""

    id: int
    job: types.Job | None = None
    explained: types.Explanation | None = None
    events: list[types.Event] = field(default_factory=list)
    attempts: list[types.Attempt] = field(default_factory=list)
    series: list[types.Series] = field(default_factory=list)
    used: dict[int, list[types.WorkerUsage]] = field(default_factory=dict)  # by attempt
    curves: int = 0  # grows when a curve has changed
    _progress: str = ""
    _usage_at: float = 0.0
    _explained_at: float = 0.0

    def look(self, client: Client) -> types.Job:
        """NoSuchJob if it is not, or no longer, there."""
        job = client.job(self.id)
        fresh = list(client.events(self.events[-1]["serial"] if self.events else None, job=self.id))
        self.events += fresh
        if fresh or self.job is None:
            self.attempts = client.attempts(self.id)
            self._explained_at = 0.0
            self.curves += 1
        self._explain(client, job)
        self._learn(client, job)
        self._use(client, job)
        self.job = job
        return job

    def _explain(self, client: Client, job: types.Job) -> None:
        if job["state"] in FINISHED:
            self.explained = None
        elif time.monotonic() - self._explained_at > _EXPLAIN_EVERY:
            self.explained, self._explained_at = client.explain(self.id), time.monotonic()

    def _learn(self, client: Client, job: types.Job) -> None:
        progress = job["progress"]
        if progress and progress["updated_at"] != self._progress:
            self.series = client.main_metrics(job, max_points=500, most=_MOST_CURVES)
            self._progress = progress["updated_at"]
            self.curves += 1

    def _use(self, client: Client, job: types.Job) -> None:
        """Of the newest attempt now and then; of those before once."""
        newest = job["attempt"]
        if time.monotonic() - self._usage_at < _USAGE_EVERY or (job["state"] in FINISHED and newest in self.used):
            return
        missing = [n for n in range(max(1, newest - _MOST_ATTEMPTS + 1), newest) if n not in self.used]
        for attempt in [*missing, *([newest] if newest else [])]:
            self.used[attempt] = client.usage(self.id, attempt, max_points=300, most=_MOST_WORKERS)
        self._usage_at = time.monotonic()
        self.curves += 1
