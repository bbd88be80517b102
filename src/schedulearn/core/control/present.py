"""The queue at one moment, with what is known of its jobs: where a prediction begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, Job, Lease
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import Known, Memory


class Outlook(NamedTuple):
    """What is known of one job, as policies are told."""

    left: Estimate | None  # seconds of running at the size that it wants; None: nobody knows
    speedup: SpeedUp
    restart_cost: float
    locality_penalty: float
    known: Known  # which of these are measured


@dataclass(frozen=True, slots=True)
class Present:
    """Plain data, so that another process can have it."""

    now: float
    policy: Mapping[str, Any] | None  # the setting in force
    jobs: Sequence[Job]  # that are not over
    attempts: Sequence[Attempt]
    leases: Sequence[Lease]
    nodes: Sequence[Node]
    memory: Memory  # of the policy
    outlook: Mapping[JobId, Outlook]  # of all that are not over
