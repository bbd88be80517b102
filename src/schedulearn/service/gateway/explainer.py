"""`explain` for the API: the same decision, made anew on what the store says. Works in any process."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from schedulearn.core.control.apply import apply
from schedulearn.core.control.explain import Explanation, explain_all, explain_one
from schedulearn.core.control.forecast import forecast_starts
from schedulearn.core.control.restore import follow, restore
from schedulearn.core.control.state import REGROW_AFTER, State, belongs_to
from schedulearn.core.domain.errors import NotFound
from schedulearn.core.domain.events import CheckpointSeen
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.ports import Clock
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.stages import Policy
from schedulearn.service.common.policy import policy_or_plain
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import SavedState, Store

_LONG = 1_000  # waiting jobs: in a longer queue …
_SERVES = 2.0  # … a look ahead serves for so many seconds, …
_AT_EASE = 10.0  # … or so many times as long as it took
_LOOK_EVERY = 5.0  # seconds between two looks for checkpoints


@dataclass(frozen=True, slots=True)
class _Ahead:
    until: float
    newest: JobId  # of the jobs that it knows of
    starts: Mapping[JobId, Estimate]


class Explainer:
    """Keeps the state it built, and what it learned from the store, and follows what happens there."""

    def __init__(self, store: Store, clock: Clock, has_checkpoint: Callable[[JobId], bool] = lambda _: False) -> None:
        self._store, self._clock, self._has_checkpoint = store, clock, has_checkpoint
        self._lock = threading.Lock()
        self._policy: Policy = build_policy()
        self._saved: SavedState | None = None
        self._facts = LiveFacts(store)
        self._state = State(self._policy.order, self._facts)
        self._ahead: _Ahead | None = None
        self._looked_at = -math.inf  # for checkpoints

    def explain(self, job_id: JobId) -> Explanation:
        now = self._clock.now()
        with self._lock:
            state = self._refresh(now)
            self._look_for_checkpoints(state, now)
            # By now it may have started, or be over.
            job = state.jobs.get(job_id) or self._stored(job_id)
            return explain_one(state, self._policy, job, now, lambda waiting: self._look_ahead(state, waiting, now))

    def waiting(self, count: int) -> list[tuple[JobId, Explanation]]:
        """The head of the queue, then the jobs that wait for something else than a place; each with its reason."""
        now = self._clock.now()
        with self._lock:
            state = self._refresh(now)
            first = state.queue.first(count)
            missing = count - len(first)
            queued = (job for job in state.jobs.values() if job.state is JobState.QUEUED and job.id not in state.queue)
            others = nsmallest(missing, queued, key=lambda job: job.id) if missing else []
            shown = [*first, *others]
            return list(zip((job.id for job in shown), self._explain(state, shown, now), strict=True))

    def _explain(self, state: State, jobs: Sequence[Job], now: float) -> list[Explanation]:
        return explain_all(state, self._policy, jobs, now, lambda waiting: self._look_ahead(state, waiting, now))

    def _look_ahead(self, state: State, waiting: Sequence[Job], now: float) -> Mapping[JobId, Estimate]:
        """Where the queue is long it may be a moment old: it costs many times as much as the decision itself."""
        kept = self._ahead
        if kept and now < kept.until and all(job.id <= kept.newest for job in waiting):
            return kept.starts
        starts = forecast_starts(state, self._policy, waiting, now, lambda other: self._facts.estimate(other, now))
        # Only one that went as far as it can says also of all others when they start.
        whole = len(state.queue) > _LONG and any(job.id not in starts for job in waiting)
        done = self._clock.now()
        until = done + max(_SERVES, _AT_EASE * (done - now))
        self._ahead = _Ahead(until, max(state.jobs), starts) if whole else None
        return starts

    def _stored(self, job_id: JobId) -> Job:
        row = self._store.job(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return row.job

    def _look_for_checkpoints(self, state: State, now: float) -> None:
        """The store does not keep which jobs have one, and those may be interrupted."""
        if now - self._looked_at < _LOOK_EVERY:
            return
        self._looked_at = now
        for number in state.attempts:
            job = state.jobs[number]
            unsure = job.spec.preemptible is Preemptible.AUTO and not job.checkpointed
            if unsure and self._has_checkpoint(number):
                apply(state, CheckpointSeen(now, number))

    def _refresh(self, now: float) -> State:
        saved = self._saved
        if saved is None or saved.serial != self._store.last_event_serial():
            self._saved = None  # what cannot be followed to its end is read whole the next time
            self._facts.refresh()
            self._saved = self._follow(saved, now) if saved else self._begin(now)
            self._state.regrow_after = self._store.setting("regrow_after", REGROW_AFTER)
        for name in self._state.due(now):  # back-offs that have ended since, without an event
            job = self._state.jobs.get(name)
            if job and job.state is JobState.QUEUED:
                self._state.queue.add(job, now)
        return self._state

    def _begin(self, now: float) -> SavedState:
        self._ahead = None
        saved = self._store.load_state()
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
            counts_cores=self._policy.counts_cores,
        )
        return saved

    def _follow(self, before: SavedState, now: float) -> SavedState:
        saved, state = self._store.load_state(since=before.serial), self._state
        known = belongs_to(saved.memory, self._policy.order)
        if saved.policy != before.policy or known != belongs_to(before.memory, self._policy.order):
            return self._begin(now)
        if known:
            state.memory = saved.memory
        gone = () if saved.unfinished is None else state.jobs.keys() - saved.unfinished
        follow(state, saved.jobs, gone, saved.attempts, saved.leases, saved.nodes, now)
        return saved
