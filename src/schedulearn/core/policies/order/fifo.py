"""First in, first out."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Order


class Fifo(Order):
    """In the order of submission."""

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        return ()  # the serial number, which ends every key, says it all
