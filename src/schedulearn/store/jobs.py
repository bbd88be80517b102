"""Jobs: submitting them, and reading them for the API."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from schedulearn.core.domain.errors import NotFound, OverLimit
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Attempt, HistoryEvent, Job, Worker
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.store.audit import acting, record_act
from schedulearn.store.base import Part, count, in_chunks, same_worker
from schedulearn.store.codec import job_from, job_values, made, values
from schedulearn.store.engine import Database
from schedulearn.store.metrics import named_series, progress_from
from schedulearn.store.submissions import find_submission, keep_submission
from schedulearn.store.tables import attempts, events, jobs, leases, requests, users, workers
from schedulearn.store.types import JobRow, JobSort, Once, Request, WorkerPlacement

UNFINISHED = jobs.c.state.in_([state for state in JobState if state not in FINISHED])
_LAST = 2**31 - 1  # the largest number that the column takes
_COUNT_EVERY = 1000  # submissions: another process may take in jobs, too
_MEASURE_EVERY = 10_000_000  # characters of specs, for the same reason
_SPEC_SIZE = sa.func.length(sa.cast(jobs.c.spec, sa.Text))
_ON_NODES = {"node_add": "node.add", "node_remove": "node.remove", "node_labels": "node.change", "drain": "node.change"}


@dataclass(slots=True)
class _Room:
    """What a user may surely submit still."""

    jobs: int = 0
    text: int = 0  # characters of their specs


class Jobs(Part):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._room: dict[tuple[int, int, int], _Room] = {}  # so that not every submission counts a long queue

    def last_job_number(self) -> int:
        """0: there was never a job."""
        with self._db.read() as connection:
            return self._db.last_number(connection, jobs)

    def advance_job_numbers(self, beyond: int) -> bool:
        """No job gets this number or a smaller one any more. False: none would have."""
        with self._db.write() as connection:
            if beyond <= self._db.last_number(connection, jobs):
                return False
            self._db.set_last_number(connection, jobs, beyond)
            return True

    def add_job(
        self,
        spec: JobSpec,
        user: str,
        at: float,
        cause: str,
        owner: int | None = None,
        once: Once | None = None,
        most: int = 0,
        most_text: int = 0,
    ) -> JobId:
        """Take in a job: its row, the first line of its history, and a request that tells the scheduler.

        `owner` is the user's id (None: of the user with that name now); NotFound if there is no such user any more.
        With `once`, a submission that was taken before makes no second job: the first one is the answer. OverLimit
        if the user has `most` unfinished jobs already (0: any number), or their specs `most_text` characters.
        """
        job = Job(
            JobId(0), spec, user, at,
            priority=spec.priority, deadline=spec.deadline, time_limit=spec.time_limit, queued_at=at,
        )  # fmt: skip
        row = job_values(job)
        del row["id"]  # the database gives it
        with self._db.write() as connection:
            if once and (known := find_submission(connection, once)):
                return known
            row["owner"] = _owner(connection, user, owner)
            if owner is not None:
                self._take_room(connection, owner, most, most_text, len(json.dumps(row["spec"])))
            id = JobId(connection.execute(sa.insert(jobs).returning(jobs.c.id), row).scalar_one())
            if once:
                keep_submission(connection, once, id, at)
            event = HistoryEvent(at, "submitted", cause, id, state=JobState.QUEUED, data={"name": spec.name})
            connection.execute(sa.insert(events), values(event, events))
            request = {"kind": "submit", "job": id, "data": {}, "by": user, "at": at}
            connection.execute(sa.insert(requests), request)
            record_act(connection, "job.submit", f"job {id}", user, name=spec.name)
        return id

    def _take_room(self, connection: sa.Connection, owner: int, most: int, most_text: int, size: int) -> None:
        """In the transaction that adds the job: no other adds one at the same time."""
        room = self._room.setdefault((owner, most, most_text), _Room())
        if most and room.jobs < 1:
            there = count_unfinished(connection, owner)
            if there >= most:
                allowed = f"at most {most:,} of one user; wait until some have ended"
                raise OverLimit(f"you have {there:,} unfinished jobs", allowed)
            room.jobs = min(most - there, _COUNT_EVERY)
        if most_text and room.text < size:
            used = _text_unfinished(connection, owner)
            if used + size > most_text:
                allowed = f"at most {most_text:,} characters of one user; wait until some have ended"
                raise OverLimit(f"the specs of your unfinished jobs have {used:,} characters", allowed)
            room.text = min(most_text - used, max(size, _MEASURE_EVERY))
        room.jobs, room.text = room.jobs - 1, room.text - size

    def add_request(self, kind: str, job: JobId | None, data: Mapping[str, Any], by: str, at: float) -> int:
        """Ask something of the scheduler. Returns the request's serial number."""
        row = {"kind": kind, "job": job, "data": dict(data), "by": by, "at": at}
        with self._db.write() as connection:
            serial = connection.execute(sa.insert(requests).returning(requests.c.serial), row).scalar_one()
            _record_request(connection, kind, job, data)
        return int(serial)

    def requests_after(self, serial: int) -> list[Request]:
        """The requests that are not dealt with yet, in their order."""
        query = sa.select(requests).where(requests.c.serial > serial).order_by(requests.c.serial)
        return self._all(Request, query)

    def last_request(self, job: JobId, kinds: Collection[str]) -> str | None:
        """The newest of these kinds that was asked of a job and is not dealt with yet."""
        query = sa.select(requests.c.kind).where(requests.c.job == job, requests.c.kind.in_(kinds))
        with self._db.read() as connection:
            kind = connection.execute(query.order_by(requests.c.serial.desc()).limit(1)).scalar()
        return None if kind is None else str(kind)

    def job(self, id: JobId) -> JobRow | None:
        with self._db.read() as connection:
            found = _rows(connection, connection.execute(sa.select(jobs).where(jobs.c.id == id)).all())
        return found[0] if found else None

    def known_jobs(self, ids: Iterable[JobId]) -> set[JobId]:
        """Those of them that there are."""
        known: set[JobId] = set()
        with self._db.read() as connection:
            for some in in_chunks(ids):
                known |= {JobId(id) for id in connection.scalars(sa.select(jobs.c.id).where(jobs.c.id.in_(some)))}
        return known

    def owners_of(self, ids: Iterable[JobId]) -> dict[JobId, int]:
        """The ids of the users whose jobs these are, where that is known."""
        found: dict[JobId, int] = {}
        with self._db.read() as connection:
            for some in in_chunks(ids):
                query = sa.select(jobs.c.id, jobs.c.owner).where(jobs.c.id.in_(some), jobs.c.owner.is_not(None))
                found |= {JobId(row.id): int(row.owner) for row in connection.execute(query)}
        return found

    def list_jobs(
        self,
        states: Collection[JobState] | None = None,  # none given: all
        user: str | None = None,
        name: str | None = None,
        sort: JobSort = "id",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        search: str | None = None,  # in names, whatever the case
        most_text: int | None = None,  # characters of specs; None: any number
    ) -> tuple[list[JobRow], int]:
        """One page, and how many there are in all. Equals are in the order of submission.

        A page ends early where the specs have `most_text` characters, but not before its first job.
        """
        wanted = sa.and_(
            jobs.c.state.in_(states) if states else sa.true(),
            jobs.c.user == user if user is not None else sa.true(),
            jobs.c.name == name if name is not None else sa.true(),
            jobs.c.name.icontains(search, autoescape=True) if search else sa.true(),
        )
        column = jobs.c[sort]
        order = [column.desc() if descending else column.asc()]
        if column is not jobs.c.id:
            order.append(jobs.c.id.desc() if descending else jobs.c.id.asc())
        page = sa.select(jobs, _SPEC_SIZE.label("size")).where(wanted).order_by(*order).limit(limit).offset(offset)
        with self._db.read() as connection:
            total = count(connection, jobs, wanted)
            return _rows(connection, _within(most_text, connection.execute(page))), total

    def attempts_of(self, job: JobId, first: int = 1, last: int = _LAST) -> list[Attempt]:
        """Those with these numbers, the first one first."""
        if first > _LAST:
            return []
        numbered = attempts.c.number.between(first, min(last, _LAST))
        with self._db.read() as connection:
            return read_attempts(connection, (attempts.c.job == job) & numbered)

    def count_by_state(self) -> dict[JobState, int]:
        query = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        with self._db.read() as connection:
            counts = {state: number for state, number in connection.execute(query)}  # noqa: C416 # rows are no pairs
        return {state: counts.get(state, 0) for state in JobState}

    def last_succeeded(self) -> tuple[float, JobId] | None:
        """When the last job ended that succeeded, and which it was."""
        query = sa.select(jobs.c.finished_at, jobs.c.id).where(jobs.c.state == JobState.SUCCEEDED)
        query = query.order_by(jobs.c.finished_at.desc(), jobs.c.id.desc()).limit(1)
        with self._db.read() as connection:
            row = connection.execute(query).one_or_none()
        return (row.finished_at, JobId(row.id)) if row else None


def _owner(connection: sa.Connection, user: str, id: int | None) -> int | None:
    """Removed users submit nothing, even if their name has been given to another user meanwhile."""
    found = connection.execute(sa.select(users.c.id).where(users.c.name == user)).scalar()
    if id is not None and found != id:
        raise NotFound(f"there is no user {user} any more")
    return found


def count_unfinished(connection: sa.Connection, owner: int) -> int:
    return count(connection, jobs, jobs.c.owner == owner, UNFINISHED)


def _text_unfinished(connection: sa.Connection, owner: int) -> int:
    used = sa.select(sa.func.coalesce(sa.func.sum(_SPEC_SIZE), 0)).where(jobs.c.owner == owner, UNFINISHED)
    return int(connection.execute(used).scalar_one())


def _within(most_text: int | None, found: sa.CursorResult[Any]) -> list[sa.Row[Any]]:
    """The first of the rows; those behind them are not even read."""
    rows: list[sa.Row[Any]] = []
    size = 0
    with found:
        for row in found:
            size += row.size
            if rows and most_text is not None and size > most_text:
                break
            rows.append(row)
    return rows


def _record_request(connection: sa.Connection, kind: str, job: JobId | None, data: Mapping[str, Any]) -> None:
    """What of a request is told in the audit log: never all of it, as some of it may be long."""
    if acting.get() is None:
        return
    if job is not None:
        user = connection.execute(sa.select(jobs.c.user).where(jobs.c.id == job)).scalar() or ""
        record_act(connection, f"job.{kind}", f"job {job}", user, **data)
    elif kind == "policy":
        told = {name: data[name] for name in ("preset", "stages") if data.get(name)}
        record_act(connection, "policy.set", "policy", params=sorted(data.get("params", {})), **told)
    else:
        name = data.get("node") or data.get("name")
        told = {key: data[key] for key in ("address", "drain", "force", "labels") if key in data}
        record_act(connection, _ON_NODES[kind], f"node {name}", **told)


def read_attempts(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> list[Attempt]:
    """Attempts with their workers, by two queries however many there are. `wanted` may speak of jobs too."""
    whole = attempts.join(jobs, jobs.c.id == attempts.c.job)
    numbered = (workers.c.job == attempts.c.job) & (workers.c.attempt == attempts.c.number)
    members: dict[tuple[int, int], list[Worker]] = {}
    query = sa.select(workers).select_from(whole.join(workers, numbered)).where(wanted)
    for row in connection.execute(query.order_by(workers.c.job, workers.c.attempt, workers.c.rank)):
        members.setdefault((row.job, row.attempt), []).append(made(Worker, row))
    found = sa.select(attempts).select_from(whole).where(wanted).order_by(attempts.c.job, attempts.c.number)
    return [made(Attempt, row, workers=members.get((row.job, row.number), [])) for row in connection.execute(found)]


def _rows(connection: sa.Connection, found: Sequence[sa.Row[Any]]) -> list[JobRow]:
    page, owners = [job_from(row) for row in found], {row.id: row.owner for row in found}
    started = [job for job in page if job.attempt]
    placements = _placements(connection, [job.id for job in started if job.state not in FINISHED])
    named = named_series(connection, {job.id: job.spec.metric.name for job in started})
    progress = {row.job: progress_from(row) for row in named}
    return [JobRow(job, job.attempt, placements.get(job.id, ()), progress.get(job.id), owners[job.id]) for job in page]


def _placements(connection: sa.Connection, ids: Sequence[JobId]) -> dict[JobId, tuple[WorkerPlacement, ...]]:
    """Where the workers of these jobs are. One that was told to leave still holds its lease, but does not count."""
    placements: dict[JobId, tuple[WorkerPlacement, ...]] = {}
    for some in in_chunks(ids):
        wanted = sa.select(leases.c.job, leases.c.rank, leases.c.node, leases.c.devices)
        query = wanted.join(workers, same_worker(leases, workers))
        query = query.where(leases.c.job.in_(some), workers.c.left_at.is_(None))
        for job, rank, node, devices in connection.execute(query.order_by(leases.c.job, leases.c.rank)):
            placed = WorkerPlacement(rank, node, devices)
            placements[job] = (*placements.get(job, ()), placed)
    return placements
