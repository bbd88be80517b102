"""Which users have uploaded which project folders. The archives themselves are files, each kept once."""

from collections.abc import Iterable

import sqlalchemy as sa

from schedulearn.core.domain.errors import OverLimit
from schedulearn.core.domain.units import format_size
from schedulearn.store.audit import record_act
from schedulearn.store.base import Part
from schedulearn.store.tables import snapshots


class Uploads(Part):
    def owns_snapshot(self, sha256: str, owner: int) -> bool:
        """Whether this user has uploaded it."""
        mine = sa.select(sa.literal(1)).where(snapshots.c.sha256 == sha256, snapshots.c.owner == owner)
        with self._db.read() as connection:
            return connection.execute(mine).first() is not None

    def has_owners(self, sha256: str) -> bool:
        with self._db.read() as connection:
            found = connection.execute(sa.select(sa.literal(1)).where(snapshots.c.sha256 == sha256).limit(1))
            return found.first() is not None

    def add_snapshot(self, sha256: str, owner: int, user: str, size: int, at: float, most: int = 0) -> None:
        """It is this user's from now on. OverLimit if they then had more than `most` bytes (0: any)."""
        with self._db.write() as connection:
            _check_room(connection, owner, sha256, size, most)
            values = {"sha256": sha256, "owner": owner, "size": size, "uploaded_at": at}
            connection.execute(self._db.upsert(snapshots), values)
            record_act(connection, "snapshot.upload", f"snapshot {sha256}", user, bytes=size)

    def check_snapshot_room(self, owner: int, sha256: str, size: int, most: int) -> None:
        """OverLimit if `add_snapshot` would say so."""
        with self._db.read() as connection:
            _check_room(connection, owner, sha256, size, most)

    def drop_snapshots(self, hashes: Iterable[str]) -> None:
        """No user has them any more."""
        with self._db.write() as connection:
            for sha256 in hashes:
                connection.execute(sa.delete(snapshots).where(snapshots.c.sha256 == sha256))


def _check_room(connection: sa.Connection, owner: int, sha256: str, size: int, most: int) -> None:
    if not most:
        return
    total = sa.select(sa.func.coalesce(sa.func.sum(snapshots.c.size), 0))
    others = (snapshots.c.owner == owner) & (snapshots.c.sha256 != sha256)
    used = int(connection.execute(total.where(others)).scalar_one())
    if used + size > most:
        problem = f"your snapshots take {format_size(used)}, and would take {format_size(used + size)}"
        allowed = f"at most {format_size(most)} of one user; those that no job needs are removed after a day"
        raise OverLimit(problem, allowed)
