"""`explain` for the API: the same decision, made anew on what the store says. Works in any process."""

import threading

from schedulearn.control.explain import Explanation, explain
from schedulearn.control.restore import restore
from schedulearn.control.state import State
from schedulearn.domain.errors import NotFound
from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.ports import Clock
from schedulearn.domain.states import JobState
from schedulearn.estimate.remaining import Estimate, remaining_by_history, remaining_by_steps
from schedulearn.policies.stages import Memory, Policy
from schedulearn.service.scheduler import policy_from
from schedulearn.store import JobRow, Store


class Explainer:
    """Keeps the state it built until something happens."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._serial = -1
        self._state: State | None = None
        self._policy: Policy = policy_from(None)
        self._memory: Memory = {}

    def explain(self, job_id: JobId) -> Explanation:
        row = self._store.job(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        now = self._clock.now()
        with self._lock:
            state = self._fresh(now)
            job = state.jobs.get(job_id, row.job)
            return explain(state, self._policy, job, now, self._memory, lambda other: self.remaining(other, now))

    def remaining(self, job: Job, now: float, row: JobRow | None = None) -> Estimate | None:
        """How long the job still runs once it runs."""
        ran = job.ran.at(now)
        progress = row or (self._store.job(job.id) if ran else None)
        if job.spec.steps and progress and progress.progress:
            by_steps = remaining_by_steps(ran, progress.progress.step, job.spec.steps)
            if by_steps:
                return by_steps
        for user, name in ((job.user, job.spec.name), (None, None)):
            durations = [seconds for seconds, _ in self._store.durations(user, name, 100)]
            if estimate := remaining_by_history(ran, durations):
                return estimate
        if job.time_limit is not None:
            left = max(0.0, job.time_limit - ran)
            return Estimate(0.0, left, left)
        return None

    def _fresh(self, now: float) -> State:
        serial = self._store.last_event_serial()
        if self._state is None or serial != self._serial:
            saved = self._store.load_state()
            self._policy = policy_from(saved.policy)
            self._memory = saved.memory
            self._state = restore(self._policy.order, saved.jobs, saved.attempts, saved.leases, saved.nodes, now)
            self._serial = serial
        for name in self._state.due(now):  # back-offs that have ended since, without an event
            job = self._state.jobs.get(name)
            if job and job.state is JobState.QUEUED:
                self._state.queue.add(job, now)
        return self._state
