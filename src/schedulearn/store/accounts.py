"""Users and their tokens. Of a token only the hash is known here."""

from typing import Any, Unpack

import sqlalchemy as sa

from schedulearn.domain.errors import Conflict, NotFound
from schedulearn.domain.ids import AttemptId, JobId
from schedulearn.store.base import Part
from schedulearn.store.tables import notices, subscriptions, tokens, users
from schedulearn.store.types import TokenRow, UserChanges, UserRole, UserRow


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
        values = {"name": name, "role": role, "uid": uid, "gid": gid, "max_priority": max_priority}
        with self._db.write() as connection:
            if _find(connection, name):
                raise Conflict(f"there is a user {name} already")
            connection.execute(sa.insert(users), values)
        return UserRow(name, role, uid, gid, max_priority)

    def users(self) -> list[UserRow]:
        """By name."""
        with self._db.read() as connection:
            return [_user_from(row) for row in connection.execute(sa.select(users).order_by(users.c.name))]

    def user(self, name: str) -> UserRow | None:
        with self._db.read() as connection:
            return _find(connection, name)

    def update_user(self, name: str, **changes: Unpack[UserChanges]) -> UserRow:
        """Change what is given. NotFound if there is no such user."""
        with self._db.write() as connection:
            if changes:
                connection.execute(sa.update(users).where(users.c.name == name).values(**changes))
            found = _find(connection, name)
        if found is None:
            raise NotFound(f"there is no user {name}")
        return found

    def remove_user(self, name: str) -> None:
        """Remove a user and their tokens; their jobs stay, and go on reporting. NotFound if there is no such user."""
        with self._db.write() as connection:
            if connection.execute(sa.delete(users).where(users.c.name == name)).rowcount == 0:
                raise NotFound(f"there is no user {name}")
            connection.execute(sa.delete(tokens).where(tokens.c.user == name, tokens.c.job.is_(None)))
            for theirs in (subscriptions, notices):
                connection.execute(sa.delete(theirs).where(theirs.c.user == name))

    def add_token(
        self,
        user: str,
        label: str,
        hash: str,
        at: float,
        attempt: AttemptId | None = None,
        expires_at: float | None = None,
    ) -> int:
        """Keep a token's hash (sha256, hexadecimal). With `attempt` it is that attempt's own. Returns its id."""
        values = {"user": user, "label": label, "hash": hash, "created_at": at, "expires_at": expires_at}
        of = {"job": attempt.job, "attempt": attempt.number} if attempt else {"job": None, "attempt": None}
        with self._db.write() as connection:
            id = connection.execute(sa.insert(tokens).returning(tokens.c.id), {**values, **of}).scalar_one()
        return int(id)

    def token_by_hash(self, hash: str) -> TokenRow | None:
        with self._db.read() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.hash == hash)).one_or_none()
        return _token_from(row) if row else None

    def tokens(self, user: str | None = None) -> list[TokenRow]:
        """People's tokens, of one user or of all; those of attempts are not listed."""
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
            if connection.execute(sa.delete(tokens).where(tokens.c.id == id)).rowcount == 0:
                raise NotFound(f"there is no token {id}")


def _find(connection: sa.Connection, name: str) -> UserRow | None:
    row = connection.execute(sa.select(users).where(users.c.name == name)).one_or_none()
    return _user_from(row) if row else None


def _user_from(row: sa.Row[Any]) -> UserRow:
    return UserRow(row.name, row.role, row.uid, row.gid, row.max_priority)


def _token_from(row: sa.Row[Any]) -> TokenRow:
    attempt = None if row.job is None else AttemptId(JobId(row.job), row.attempt)
    return TokenRow(row.id, row.user, row.label, row.created_at, attempt, row.expires_at)
