"""Users and their tokens. Of a token only the hash is known here."""

from dataclasses import asdict
from typing import Any, Unpack

import sqlalchemy as sa

from schedulearn.core.domain.errors import Conflict, NotFound, OverLimit
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.store.audit import record_act
from schedulearn.store.base import Part, count
from schedulearn.store.codec import made
from schedulearn.store.jobs import count_unfinished
from schedulearn.store.settings import read_setting
from schedulearn.store.tables import jobs, notices, settings, snapshots, submissions, subscriptions, tokens, users
from schedulearn.store.types import TokenRow, UserChanges, UserRole, UserRow

_LAST_ID = "last_user_id"  # a setting: ids of removed users do not come again


class Accounts(Part):
    def add_user(
        self,
        name: str,
        role: UserRole,
        uid: int | None = None,
        gid: int | None = None,
        max_priority: int | None = None,
    ) -> UserRow:
        """Conflict if there is one of that name."""
        with self._db.write() as connection:
            if _find(connection, name):
                raise Conflict(f"there is a user {name} already")
            user = UserRow(name, role, uid, gid, max_priority, self._next_id(connection))
            connection.execute(sa.insert(users), asdict(user))
            given = {"role": role, "uid": uid, "gid": gid, "max_priority": max_priority}
            record_act(connection, "user.add", f"user {name}", name, **given)
        return user

    def last_user_id(self) -> int:
        """Of all users that ever were."""
        with self._db.read() as connection:
            return int(read_setting(connection, _LAST_ID, 0))

    def _next_id(self, connection: sa.Connection) -> int:
        id = int(read_setting(connection, _LAST_ID, 0)) + 1
        connection.execute(self._db.upsert(settings), {"key": _LAST_ID, "value": id})
        return id

    def users(self) -> list[UserRow]:
        """By name."""
        return self._all(UserRow, sa.select(users).order_by(users.c.name))

    def user(self, name: str) -> UserRow | None:
        with self._db.read() as connection:
            return _find(connection, name)

    def update_user(self, name: str, **changes: Unpack[UserChanges]) -> UserRow:
        """Change what is given. NotFound if there is no such user."""
        with self._db.write() as connection:
            if changes:
                connection.execute(sa.update(users).where(users.c.name == name).values(**changes))
                record_act(connection, "user.update", f"user {name}", name, **changes)
            found = _find(connection, name)
            if found is None:
                raise NotFound(f"there is no user {name}")
        return found

    def remove_user(self, name: str, idle: bool = False) -> None:
        """Remove a user with their tokens, uploads and notices; their jobs stay, and go on reporting.

        NotFound if there is no such user; with `idle`, Conflict if they have unfinished jobs.
        """
        with self._db.write() as connection:
            found = _find(connection, name)
            if found is None:
                raise NotFound(f"there is no user {name}")
            if idle and (unfinished := count_unfinished(connection, found.id)):
                raise Conflict(f"{name} has unfinished jobs ({unfinished}): cancel them first")
            connection.execute(sa.delete(users).where(users.c.name == name))
            connection.execute(sa.delete(tokens).where(tokens.c.user == name, tokens.c.job.is_(None)))
            for named in (subscriptions, notices):
                connection.execute(sa.delete(named).where(named.c.user == name))
            for owned in (snapshots, submissions):
                connection.execute(sa.delete(owned).where(owned.c.owner == found.id))
            record_act(connection, "user.remove", f"user {name}", name)

    def user_of(self, job: JobId) -> UserRow | None:
        """Whose job it is; None if the user is gone, also if another one has the name now."""
        query = sa.select(users).join(jobs, jobs.c.owner == users.c.id).where(jobs.c.id == job)
        return next(iter(self._all(UserRow, query)), None)

    def add_token(
        self,
        user: str,
        label: str,
        hash: str,
        at: float,
        attempt: AttemptId | None = None,
        expires_at: float | None = None,
        most: int = 0,
    ) -> int:
        """Keep a token's hash (sha256, hexadecimal). With `attempt` it is that attempt's own. Returns its id.

        OverLimit if the user has `most` tokens already (0: any number).
        """
        values = {"user": user, "label": label, "hash": hash, "created_at": at, "expires_at": expires_at}
        of = {"job": attempt.job, "attempt": attempt.number} if attempt else {"job": None, "attempt": None}
        with self._db.write() as connection:
            if most:
                _check_room(connection, user, most)
            id = connection.execute(sa.insert(tokens).returning(tokens.c.id), {**values, **of}).scalar_one()
            if attempt is None:
                record_act(connection, "token.create", f"token {id}", user, label=label)
        return int(id)

    def token_by_hash(self, hash: str) -> TokenRow | None:
        with self._db.read() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.hash == hash)).one_or_none()
        return _token_from(row) if row else None

    def tokens(self, user: str | None = None) -> list[TokenRow]:
        """Users' own tokens, of one user or of all; those of attempts are not listed."""
        query = sa.select(tokens).where(tokens.c.job.is_(None)).order_by(tokens.c.id)
        if user is not None:
            query = query.where(tokens.c.user == user)
        with self._db.read() as connection:
            return [_token_from(row) for row in connection.execute(query)]

    def renew_token(self, id: int, expires_at: float) -> None:
        """It ends then, if it is still there."""
        with self._db.write() as connection:
            connection.execute(sa.update(tokens).where(tokens.c.id == id).values(expires_at=expires_at))

    def drop_ended_tokens(self, now: float) -> None:
        with self._db.write() as connection:
            connection.execute(sa.delete(tokens).where(tokens.c.expires_at <= now))

    def revoke_token(self, id: int) -> None:
        """NotFound if there is no such token."""
        with self._db.write() as connection:
            user = connection.execute(sa.select(tokens.c.user).where(tokens.c.id == id)).scalar()
            if user is None:
                raise NotFound(f"there is no token {id}")
            connection.execute(sa.delete(tokens).where(tokens.c.id == id))
            record_act(connection, "token.revoke", f"token {id}", user)


def _check_room(connection: sa.Connection, user: str, most: int) -> None:
    there = count(connection, tokens, tokens.c.user == user, tokens.c.job.is_(None))
    if there >= most:
        raise OverLimit(f"{user} has {there} tokens", f"at most {most} of one user; revoke some first")


def _find(connection: sa.Connection, name: str) -> UserRow | None:
    row = connection.execute(sa.select(users).where(users.c.name == name)).one_or_none()
    return made(UserRow, row) if row else None


def _token_from(row: sa.Row[Any]) -> TokenRow:
    attempt = None if row.job is None else AttemptId(JobId(row.job), row.attempt)
    return made(TokenRow, row, attempt=attempt)
