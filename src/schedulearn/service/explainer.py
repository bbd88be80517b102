"""`explain` for the API: the same decision, made anew on what the store says. Works in any process."""

import threading
from itertools import islice

from schedulearn.control.explain import Explanation, explain
from schedulearn.control.restore import restore
from schedulearn.control.state import REGROW_AFTER, State
from schedulearn.domain.errors import NotFound
from schedulearn.domain.ids import JobId
from schedulearn.domain.job import Job
from schedulearn.domain.ports import Clock
from schedulearn.domain.states import JobState
from schedulearn.policies.presets import build_policy
from schedulearn.policies.stages import Policy
from schedulearn.service.facts import LiveFacts
from schedulearn.service.scheduler import policy_or_plain
from schedulearn.store import SavedState, Store


class Explainer:
    """Keeps the state it built, and what it learned from the store, until something happens."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._policy: Policy = build_policy()
        self._saved: SavedState | None = None
        self._facts = LiveFacts(store)
        self._state = State(self._policy.order, self._facts)

    def explain(self, job_id: JobId) -> Explanation:
        job = self._stored(job_id)
        now = self._clock.now()
        with self._lock:
            state = self._refresh(now)
            if job.state is JobState.QUEUED:
                # By now it may have started, or be over.
                job = state.jobs.get(job_id) or self._stored(job_id)
            return self._explain(state, job, now)

    def waiting(self, count: int) -> list[tuple[JobId, Explanation]]:
        """The head of the queue, then those who wait for something else than a place; each with its reason."""
        now = self._clock.now()
        with self._lock:
            state = self._refresh(now)
            first = state.queue.first(count)
            queued = (job for job in state.jobs.values() if job.state is JobState.QUEUED and job.id not in state.queue)
            shown = [*first, *islice(queued, count - len(first))]
            return [(job.id, self._explain(state, job, now)) for job in shown]

    def _explain(self, state: State, job: Job, now: float) -> Explanation:
        return explain(state, self._policy, job, now, lambda other: self._facts.estimate(other, now))

    def _stored(self, job_id: JobId) -> Job:
        row = self._store.job(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return row.job

    def _refresh(self, now: float) -> State:
        saved = self._saved
        if saved is None or saved.serial != self._store.last_event_serial():
            saved = self._saved = self._store.load_state(saved)
            self._facts.refresh()
            self._policy, _ = policy_or_plain(saved.policy)
            self._state = restore(
                self._policy.order,
                self._facts,
                saved.jobs,
                saved.attempts,
                saved.leases,
                saved.nodes,
                saved.memory,
                now,
                regrow_after=self._store.setting("regrow_after", REGROW_AFTER),
                counts_cores=self._policy.counts_cores,
            )
        for name in self._state.due(now):  # back-offs that have ended since, without an event
            job = self._state.jobs.get(name)
            if job and job.state is JobState.QUEUED:
                self._state.queue.add(job, now)
        return self._state
