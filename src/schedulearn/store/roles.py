"""Which process acts: a lease on a role, and a fence number that tells the present holder from an earlier one."""

import sqlalchemy as sa

from schedulearn.core.domain.errors import RoleTaken
from schedulearn.store.base import Part
from schedulearn.store.tables import roles


class Roles(Part):
    def take_role(self, role: str, holder: str, at: float, ttl: float, steal: bool = False) -> int:
        """Become the holder for `ttl` seconds, and longer if renewed. Returns the fence number, always a greater one.

        RoleTaken if another holder's lease is still good, unless it is to be stolen.
        """
        with self._db.write() as connection:
            row = connection.execute(sa.select(roles).where(roles.c.role == role)).one_or_none()
            if row and row.holder not in (None, holder) and not steal:
                # Also when the clock was set back far: a holder that lives renews by the same clock.
                left = row.ttl - abs(at - row.renewed_at)
                if left > 0:
                    raise RoleTaken(
                        f"the role {role} is held by {row.holder}; it is free in {left:.0f} s at the latest"
                    )
            fence = row.fence + 1 if row else 1
            values = {"role": role, "holder": holder, "fence": fence, "renewed_at": at, "ttl": ttl}
            connection.execute(self._db.upsert(roles), values)
        return int(fence)

    def renew_role(self, role: str, fence: int, at: float) -> None:
        """RoleTaken if it was taken by another meanwhile, or given back."""
        with self._db.write() as connection:
            check_fence(connection, role, fence)
            connection.execute(sa.update(roles).where(roles.c.role == role).values(renewed_at=at))

    def release_role(self, role: str, fence: int) -> None:
        """Give it back. Nothing happens if another has it already."""
        with self._db.write() as connection:
            mine = (roles.c.role == role) & (roles.c.fence == fence)
            connection.execute(sa.update(roles).where(mine).values(holder=None))

    def role_seen(self, role: str) -> float | None:
        """When its holder last renewed it; None: no process plays it."""
        with self._db.read() as connection:
            query = sa.select(roles.c.renewed_at).where((roles.c.role == role) & roles.c.holder.is_not(None))
            return connection.execute(query).scalar_one_or_none()


def check_fence(connection: sa.Connection, role: str, fence: int) -> None:
    """RoleTaken unless the role is still held with this fence."""
    row = connection.execute(sa.select(roles.c.fence, roles.c.holder).where(roles.c.role == role)).one_or_none()
    if row is None or row.holder is None or row.fence != fence:
        by = f"taken by {row.holder}" if row and row.holder else "given back"
        raise RoleTaken(f"the role {role} is no longer held with fence {fence}: it was {by}")
