"""First in, first out."""

from schedulearn.domain.job import Job
from schedulearn.policies.stages import Key, KeyChanges


class Fifo:
    """In the order of submission."""

    preemptive = False
    key_changes = KeyChanges.NEVER

    def key(self, job: Job, now: float) -> Key:  # noqa: ARG002 - the protocol's
        return ()  # the serial number, which ends every key, says it all
