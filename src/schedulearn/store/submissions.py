"""Submissions with a key: sent once more after a lost answer, they make no second job."""

import sqlalchemy as sa

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId
from schedulearn.store.base import Part
from schedulearn.store.tables import submissions
from schedulearn.store.types import Once

KEY = "Idempotency-Key"  # as callers name it


class Submissions(Part):
    def submitted(self, once: Once) -> JobId | None:
        """The job that was made with this key. InvalidSpec if the key was used for something else."""
        with self._db.read() as connection:
            return find_submission(connection, once)

    def drop_submissions(self, before: float) -> None:
        """Keys that were used earlier."""
        with self._db.write() as connection:
            connection.execute(sa.delete(submissions).where(submissions.c.at < before))


def find_submission(connection: sa.Connection, once: Once) -> JobId | None:
    same = (submissions.c.owner == once.owner) & (submissions.c.key == once.key)
    row = connection.execute(sa.select(submissions.c.job, submissions.c.digest).where(same)).one_or_none()
    if row is None:
        return None
    if row.digest != once.digest:
        problem = f"this key was used before, for job {row.job}, with another content"
        raise InvalidSpec(KEY, problem, "a new key for each job; the same one only to send the same once more")
    return JobId(row.job)


def keep_submission(connection: sa.Connection, once: Once, job: JobId, at: float) -> None:
    values = {"owner": once.owner, "key": once.key, "digest": once.digest, "job": job, "at": at}
    connection.execute(sa.insert(submissions), values)
