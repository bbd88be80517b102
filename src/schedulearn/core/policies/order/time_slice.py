"""Time-slicing (Gandiva)."""

from schedulearn.core.domain.job import Job
from schedulearn.core.policies.stages import Facts, Key, Memory, Order

_LAST = "time_slice.last"


class TimeSlice(Order):
    """Jobs run in turn, a quantum each, and are suspended in between."""

    preemptive = True
    running_moves_forward = True
    suspends = True
    takes_turns = True
    keeps_state = True

    def __init__(self, quantum: float = 60.0) -> None:
        self.quantum = quantum

    def key(self, job: Job, now: float, facts: Facts) -> Key:
        return (job.order_state[0],)

    def joined(self, job: Job, now: float, memory: Memory) -> None:
        if job.order_state is None:
            self._last_in_turn(job, now, memory)

    def expires(self, job: Job, now: float) -> float | None:
        if job.ran.rate <= 0:
            return None
        return now + max(0.0, self.quantum - (job.ran.at(now) - float(job.order_state[1])))

    def expired(self, job: Job, now: float, memory: Memory) -> bool:
        if job.order_state is None or job.ran.rate <= 0 or job.ran.at(now) - job.order_state[1] < self.quantum - 1e-6:
            return False
        self._last_in_turn(job, now, memory)
        return True

    def _last_in_turn(self, job: Job, now: float, memory: Memory) -> None:
        memory[_LAST] = memory.get(_LAST, 0) + 1
        job.order_state = [memory[_LAST], job.ran.at(now)]


class PackedTimeSlice(TimeSlice):
    """As time-slice, and who has no turn runs on beside another job where the two get more done together."""

    packs = True
