"""How an older database gets the present tables: one step for each change of them since the first version.

A new database is made as the tables are declared and takes none of these steps. A test starts from a kept copy of the
first version, with rows in it, and must arrive at the same tables.
"""

from collections.abc import Callable

import sqlalchemy as sa

Step = Callable[[sa.Connection], None]


def _add_worked(connection: sa.Connection) -> None:
    """Until then a job's work was counted as if it had always had the size that it wants."""
    connection.exec_driver_sql("ALTER TABLE jobs ADD COLUMN worked TEXT DEFAULT '[0, 0, 0]' NOT NULL")
    connection.exec_driver_sql("UPDATE jobs SET worked = ran")


def _add_beside(connection: sa.Connection) -> None:
    """How many ran beside earlier jobs is not known."""
    connection.exec_driver_sql("ALTER TABLE jobs ADD COLUMN beside INTEGER DEFAULT '0' NOT NULL")


# The first leads from version 1 to 2, and so on, all in one transaction on both databases. A step that was released
# never changes, so it says what it does in SQL or with tables of its own, not with those of `tables.py`.
STEPS: tuple[Step, ...] = (_add_worked, _add_beside)
