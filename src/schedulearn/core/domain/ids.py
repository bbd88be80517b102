"""Typed ids. Jobs are integers, an attempt is written `17.2`, its worker `17.2.0`."""

from typing import NamedTuple, NewType

JobId = NewType("JobId", int)  # also the serial number of submission: ties are broken by it
NodeName = NewType("NodeName", str)
DeviceId = NewType("DeviceId", str)  # opaque: a GPU's UUID, for example


class AttemptId(NamedTuple):
    """One try to run a job. The number also fences: a lower one is stale."""

    job: JobId
    number: int

    def __str__(self) -> str:
        return f"{self.job}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> "AttemptId":
        job, number = text.split(".")
        return cls(JobId(int(job)), int(number))


class WorkerId(NamedTuple):
    """One process (or container) of an attempt; `rank` counts from 0."""

    job: JobId
    attempt: int
    rank: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}.{self.rank}"

    @property
    def of(self) -> AttemptId:
        return AttemptId(self.job, self.attempt)

    @classmethod
    def parse(cls, text: str) -> "WorkerId":
        job, attempt, rank = text.split(".")
        return cls(JobId(int(job)), int(attempt), int(rank))
