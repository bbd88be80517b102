"""The one door of the API: what each caller may do, what makes sense now, and where it is kept or read.

Nothing here changes a job itself. What is asked for is written into the store as a request, and the scheduler is woken.
"""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from schedulearn import __version__
from schedulearn.core.control.explain import Explanation
from schedulearn.core.control.moves import Destination
from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotAllowed, NotFound, OverLimit
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt
from schedulearn.core.domain.spec import JobSpec, Target
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.core.domain.units import format_size
from schedulearn.core.policies.catalogue.presets import DEFAULT_PRESET, available, build_policy
from schedulearn.core.policies.stages import Policy
from schedulearn.executors.common import logs
from schedulearn.executors.common.folders import fetched_at
from schedulearn.executors.common.logs import LogChunk
from schedulearn.executors.common.paths import JobPaths, WorkerPaths
from schedulearn.service.common.auth import Authenticator, Caller
from schedulearn.service.common.config import Caps, DataFolder
from schedulearn.service.exec.commands import Commands
from schedulearn.service.gateway.accounts import Accounts
from schedulearn.service.gateway.admission import (
    check_container,
    check_cpus_limit,
    check_move,
    check_possible,
    check_workers,
    possible_moves,
    target_of,
    workers_asked,
)
from schedulearn.service.gateway.advice import Adviser
from schedulearn.service.gateway.audit import AuditLog
from schedulearn.service.gateway.logins import Logins
from schedulearn.service.gateway.overview import Overview, OverviewCache, Waiting
from schedulearn.service.gateway.rendezvous import Rendezvous
from schedulearn.service.gateway.servers import Servers
from schedulearn.service.gateway.uploads import Uploads
from schedulearn.service.gateway.views import (
    Advice,
    Counts,
    Curve,
    Health,
    JobPulse,
    LogPlace,
    WorkerUsage,
)
from schedulearn.service.gateway.vitals import SOON, Vitals
from schedulearn.service.notify.subscriptions import Subscriptions
from schedulearn.service.progress.reports import add_reports
from schedulearn.service.studies.studies import Studies
from schedulearn.service.upkeep.housekeeping import DISK
from schedulearn.store import JobRow, JobSort, Once, Point, Store, StoredEvent, Taken, Timeline
from schedulearn.wire import types
from schedulearn.wire.words import iso

MOST_TEXT = 16_000_000  # characters of specs in one page of jobs
_PAUSABLE = {JobState.QUEUED, JobState.RUNNING}


class Gateway:
    """Every route of the API calls one method of it. All are thread-safe, as the store is."""

    def __init__(
        self,
        store: Store,
        data: Path,
        wake: Callable[[], None],
        explain: Callable[[JobId], Explanation],
        *,
        scheduler_seen: Callable[[], float | None],
        scheduler_lives: Callable[[], bool | None] = lambda: None,
        waiting: Waiting,
        roles: Sequence[str] = ("api", "scheduler"),
        has_checkpoint: Callable[[JobId], bool] = lambda _: False,
        caps: Caps | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`scheduler_seen` is the time of the scheduler's last sign of life, or None if there is none;
        `scheduler_lives` knows better, or says None; `waiting` tells the head of the queue, `caps` what one user may
        have."""
        self._store, self._data, self._wake, self._clock = store, data, wake, clock
        self._explain = explain
        self.vitals = Vitals(store, scheduler_seen, clock)
        self._scheduler_lives, self._roles = scheduler_lives, tuple(roles)
        self._caps = caps or Caps()
        self.uploads = Uploads(store, DataFolder(data).snapshots, clock, self._caps.snapshots)
        self.audit = AuditLog(store, clock)
        self._adviser = Adviser(store)
        self._closing = threading.Event()
        self.auth = Authenticator(store, clock)
        self.accounts = Accounts(store, self.auth, clock, self._caps.tokens)
        self.notify = Subscriptions(store, clock)
        self.commands = Commands(store, data, self._own)
        self.servers = Servers(store, wake, clock, lambda: self.health().scheduler_runs)
        self.logins = Logins(self.accounts, clock)
        self._overview = OverviewCache(store, self.servers.views, waiting)
        reports = DataFolder(data).reports
        self.studies = Studies(store, reports, lambda: available()["presets"], clock, has_checkpoint=has_checkpoint)
        self.rendezvous = Rendezvous(self._closing.is_set)
        self.page_key = secrets.token_urlsafe(32)  # by which the page of this process is known

    def now(self) -> float:
        return self._clock()

    def close(self) -> None:
        """Let streams end: the service is about to stop."""
        self._closing.set()

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    # --- jobs: asking

    def check(self, caller: Caller, spec: JobSpec) -> None:
        """InvalidSpec if this job would not be taken."""
        caller.must_be_person()
        self._check_priority(caller, spec.priority)
        self.notify.check(caller, spec.notify)
        nodes = self._store.list_nodes()
        check_container(spec, nodes, self._store.setting("allow_mounts", []))
        if spec.snapshot and not self.uploads.has(caller, spec.snapshot):
            problem = f"there is no such snapshot here: upload it first with PUT /api/v1/snapshots/{spec.snapshot}"
            raise InvalidSpec("snapshot", problem, "the SHA-256 of an uploaded snapshot")
        known = self._store.known_jobs(spec.depends_on) if spec.depends_on else set()
        for other in spec.depends_on:
            if other not in known:
                raise InvalidSpec("depends_on", f"there is no job {other}", "ids of jobs that exist")
        check_possible(spec, nodes)
        self._check_disk(caller)

    def submitted(self, caller: Caller, key: str, digest: str) -> JobRow | None:
        """The job that the caller has made with this key of the same content (the `digest` tells); None: there is none.

        It is not checked again, as much may have changed since.
        """
        caller.must_be_person()
        known = self._store.submitted(Once(caller.id, key, digest))
        return None if known is None else self._made(known)

    def submit(self, caller: Caller, spec: JobSpec, key: str = "", digest: str = "") -> JobRow:
        """With a `key`, what is sent once more makes no second job, also at the same time: the first is the answer."""
        self.check(caller, spec)
        once = Once(caller.id, key, digest) if key else None
        cause = f"submitted by {caller.name}"
        job = self._store.add_job(
            spec, caller.name, self.now(), cause, caller.id, once, self._caps.jobs, self._caps.specs
        )
        self._wake()
        return self._made(job)

    def _made(self, job: JobId) -> JobRow:
        row = self._store.job(job)
        if row is None:
            raise Conflict(f"job {job} was made of this, and has been deleted since")
        return row

    def cancel(self, caller: Caller, job: JobId) -> JobRow:
        row = self._own(caller, job)
        if row.job.state in FINISHED:
            raise Conflict(f"job {job} is already over: it has {_past(row.job.state)}")
        return self._ask("cancel", row, {}, caller)

    def delete(self, caller: Caller, job: JobId) -> JobRow:
        """Stop it at once if it runs, then forget it."""
        return self._ask("delete", self._own(caller, job), {}, caller)

    def pause(self, caller: Caller, job: JobId) -> JobRow:
        asked = self._asked_before(job)
        row = self._own(caller, job)
        if row.job.state not in _PAUSABLE and asked != "resume":
            state = row.job.state.in_words
            raise Conflict(f"job {job} cannot be paused: it {state}; only a queued or running one can be")
        return self._ask("pause", row, {}, caller)

    def resume(self, caller: Caller, job: JobId) -> JobRow:
        asked = self._asked_before(job)
        row = self._own(caller, job)
        if row.job.state is not JobState.PAUSED and asked != "pause":
            raise Conflict(f"job {job} is not paused: it {row.job.state.in_words}")
        return self._ask("resume", row, {}, caller)

    def _asked_before(self, job: JobId) -> str | None:
        """The last pause or resume that still waits: it decides what comes next, not the state of this moment.

        Asked for before the job is read: what is dealt with in between is then in its state.
        """
        return self._store.last_request(job, ("pause", "resume"))

    def migrate(self, caller: Caller, job: JobId, node: NodeName) -> JobRow:
        """Save, stop, and go on over there."""
        row = self._own(caller, job)
        check_move(row, node, self._store.list_nodes(), self._store.leases())
        return self._ask("migrate", row, {"node": node}, caller)

    def possible_moves(self, job: JobId) -> list[Destination]:
        """Where `migrate` could send it now, and why not elsewhere."""
        return possible_moves(self.job(job), self._store.list_nodes(), self._store.leases())

    def update(self, caller: Caller, job: JobId, fields: Mapping[str, Any]) -> JobRow:
        """New priority, deadline, limits, number of workers or target.

        The answer shows them already, whenever the scheduler takes them up.
        """
        row = self._own(caller, job)
        if row.job.state in FINISHED:
            raise Conflict(f"job {job} is already over: it has {_past(row.job.state)}")
        if "priority" in fields:
            self._check_priority(caller, int(fields["priority"] or 0))
        if "cpus_limit" in fields:
            check_cpus_limit(row, fields["cpus_limit"], self._store.list_nodes())
        if not fields:
            return row
        if "target" in fields:
            fields = {**fields, "target": target_of(row.job, fields["target"])}
        changed = dict(fields)
        if "workers" in changed:
            workers = workers_asked(row.job.spec, changed.pop("workers"))
            check_workers(row, workers, self._store.list_nodes(), self._store.leases(), self._data)
            changed["spec"] = replace(row.job.spec, workers=workers)
            fields = {**fields, "workers": asdict(workers)}
        if "target" in changed:
            asked = changed.pop("target")
            spec = changed.get("spec", row.job.spec)
            changed |= {"spec": replace(spec, target=Target(**asked) if asked else None), "reached_at": None}
        return self._ask("update", replace(row, job=replace(row.job, **changed)), fields, caller)

    # --- jobs: reading

    def job(self, job: JobId) -> JobRow:
        row = self._store.job(job)
        if row is None:
            raise NotFound(f"there is no job {job}")
        return row

    def jobs(
        self,
        states: Collection[JobState] | None,
        user: str | None,
        name: str | None,
        sort: JobSort,
        descending: bool,
        limit: int,
        offset: int,
        search: str | None = None,
    ) -> tuple[list[JobRow], int]:
        return self._store.list_jobs(states, user, name, sort, descending, limit, offset, search, MOST_TEXT)

    def attempts(self, job: JobId, limit: int, offset: int) -> tuple[list[Attempt], int]:
        """Some of them, the first one first, and how many there were."""
        total = self.job(job).attempts
        return self._store.attempts_of(job, offset + 1, offset + limit), total

    def explain(self, job: JobId) -> tuple[JobRow, Explanation, list[types.SourceErrors]]:
        """And how far off the estimates were that it may be made of."""
        return self.job(job), self._explain(job), self._adviser.errors(self.now())

    def advice(self, row: JobRow) -> Advice:
        """How heavy it is, a hint if it asks for far more, or less, than jobs like it; when its checkpoint came in."""
        fetched = fetched_at(JobPaths.of(self._data, row.job.id))
        return replace(self._adviser.advise(row, self.now()), checkpoint_at=fetched)

    def curves(self, job: JobId, name: str | None, max_points: int, limit: int, offset: int) -> tuple[list[Curve], int]:
        """A page of its curves, and how many it has."""
        self.job(job)
        return self._store.curves(job, name, max_points, limit, offset)

    def usage(
        self, job: JobId, attempt: int | None, since: float | None, max_points: int, limit: int, offset: int
    ) -> tuple[AttemptId, list[WorkerUsage], int]:
        """What its workers use: of the newest attempt unless another one is named; a page, and of how many workers."""
        number = self.log_place(job, attempt, 0).attempt
        workers = self._store.usage_of(job, number, since, max_points, limit, offset)
        return AttemptId(job, number), workers, self._store.usage_count(job, number)

    # --- output

    def log_place(self, job: JobId, attempt: int | None, rank: int) -> LogPlace:
        """Where to read: the newest attempt unless another one is named."""
        newest = self.job(job).job.attempt
        number = newest if attempt is None else attempt
        if attempt is not None and not 1 <= attempt <= newest:
            raise NotFound(f"job {job} has no attempt {attempt}")
        if number and rank:
            workers = next((a.workers for a in self._store.attempts_of(job, number, number)), [])
            if rank not in {worker.id.rank for worker in workers}:
                raise NotFound(f"attempt {job}.{number} has no worker {rank}")
        return LogPlace(job, number, rank)

    def log_read(self, place: LogPlace, limit: int) -> LogChunk:
        return logs.read(self._log_folder(place), place.offset, limit)

    def log_tail(self, place: LogPlace, lines: int) -> LogChunk:
        return logs.tail(self._log_folder(place), lines)

    def pulse(self, job: JobId) -> JobPulse | None:
        """None: the job is gone."""
        row = self._store.job(job)
        return JobPulse(row.job.state, row.job.attempt_id, bool(row.placement)) if row else None

    # --- history

    def events(self, after: int, job: JobId | None, limit: int) -> list[StoredEvent]:
        return self._store.events_after(after, job, limit)

    def job_events(self, job: JobId, after: int, limit: int) -> list[StoredEvent]:
        self.job(job)
        return self._store.events_after(after, job, limit)

    def timeline(self, since: float, until: float, limit: int) -> Timeline:
        return self._store.timeline(since, until, limit)

    def last_event(self) -> int:
        return self._store.last_event_serial()

    def report(self, caller: Caller, attempt: AttemptId, worker: WorkerId, points: Sequence[Point]) -> Taken:
        if caller.attempt != attempt:
            raise NotAllowed(f"only the token of attempt {attempt} may send its reports")
        if worker.of != attempt:
            raise InvalidSpec("worker", f"{worker} is not a worker of attempt {attempt}", f"{attempt}.0, …")
        return add_reports(self._store, worker, points, self.now())

    # --- policy

    def policy(self) -> types.Policy:
        saved, fault = self._store.setting("policy") or {}, self._store.setting("policy_fault")
        preset, stages, params = saved.get("preset"), saved.get("stages") or {}, saved.get("params") or {}
        preset = DEFAULT_PRESET if preset is None else str(preset)
        try:
            policy = _built(preset, stages, params)
            stages, params = policy.stages, policy.params
        except InvalidSpec as error:
            # It was valid when it was set: a stage has gone since. Show what is asked for, and why it cannot be.
            fault = fault or {"at": None, "error": str(error)}
        if fault and fault.get("at") is not None:
            fault = {**fault, "at": iso(fault["at"])}
        problems = {node: kept["problem"] for node, kept in self._store.shares().items() if kept.get("problem")}
        return _policy(preset, stages, params, fault, problems, self._adviser.errors(self.now()))

    def set_policy(
        self, caller: Caller, preset: str, stages: Mapping[str, str], params: Mapping[str, Any]
    ) -> types.Policy:
        caller.must_be_admin()
        policy = _built(preset, stages, params)
        asked = {"preset": preset, "stages": dict(stages), "params": dict(params)}
        self._request("policy", None, asked, caller)
        return _policy(preset, policy.stages, policy.params, None, {}, [])

    # --- the service itself

    def health(self) -> Health:
        """After a look at the database, if it answers soon."""
        with suppress(TimeoutError):
            self.vitals.look().result(SOON)
        return self.known_health()

    def known_health(self) -> Health:
        """As far as is known, without a look."""
        vitals, lives = self.vitals, self._scheduler_lives()
        return Health(__version__, self._roles, vitals.scheduler_age, self.now(), lives, vitals.lost_since())

    def overview(self) -> Overview:
        return self._overview.look()

    def counts(self) -> Counts:
        return Counts(
            self._store.count_by_state(),
            self.servers.views(),
            self.last_event(),
            self.health(),
            self._store.usage_now(),
        )

    # --- helpers

    def _own(self, caller: Caller, job: JobId) -> JobRow:
        caller.must_be_person()
        row = self.job(job)
        caller.must_own(row.owner, row.job.user, f"job {job}")
        return row

    def _check_priority(self, caller: Caller, priority: int) -> None:
        if priority > caller.max_priority and not caller.is_admin:
            problem = f"{priority} is above what {caller.name} may use"
            raise InvalidSpec("priority", problem, f"0..{caller.max_priority}")

    def _check_disk(self, caller: Caller) -> None:
        """As housekeeping has measured it, about once a minute."""
        used, most = self._store.setting(DISK, {}).get(str(caller.id), 0), self._caps.disk
        if most and used > most:
            allowed = f"at most {format_size(most)} of one user; delete some (schedulearn rm), or their files"
            raise OverLimit(f"the folders of your jobs take {format_size(used)}", allowed)

    def _ask(self, kind: str, row: JobRow, data: Mapping[str, Any], caller: Caller) -> JobRow:
        self._request(kind, row.job.id, data, caller)
        return row

    def _request(self, kind: str, job: JobId | None, data: Mapping[str, Any], caller: Caller) -> None:
        self._store.add_request(kind, job, data, caller.name, self.now())
        self._wake()

    def _log_folder(self, place: LogPlace) -> Path:
        return WorkerPaths.of(self._data, WorkerId(place.job, place.attempt, place.rank)).log


def _built(preset: str, stages: Mapping[str, str], params: Mapping[str, Any]) -> Policy:
    """InvalidSpec names what is unknown, or cannot be live."""
    policy = build_policy(preset, stages, params)
    if policy.order.packs:
        field = "stages.order" if "order" in stages else "preset"
        problem = "two jobs on one device can only be simulated: a lease gives a device to one job"
        raise InvalidSpec(field, problem, "gandiva: the same, one after the other")
    return policy


def _policy(
    preset: str,
    stages: Mapping[str, str],
    params: Mapping[str, Any],
    fault: dict[str, Any] | None,
    problems: Mapping[NodeName, str],
    estimates: list[types.SourceErrors],
) -> types.Policy:
    return types.Policy(
        preset=preset,
        stages=dict(stages),
        params=dict(params),
        available=available(),
        fault=fault,
        sharing_problems={str(node): problem for node, problem in problems.items()},
        estimates=estimates,
    )


def _past(state: JobState) -> str:
    return {JobState.SUCCEEDED: "succeeded", JobState.FAILED: "failed"}.get(state, "been cancelled")
