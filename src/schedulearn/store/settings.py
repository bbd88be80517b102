"""Settings: JSON values by name."""

from typing import Any

import sqlalchemy as sa

from schedulearn.store.base import Part
from schedulearn.store.tables import settings


class Settings(Part):
    def setting(self, key: str, default: Any = None) -> Any:
        with self._db.read() as connection:
            return read_setting(connection, key, default)

    def set_setting(self, key: str, value: Any) -> None:
        """None: back to the default."""
        with self._db.write() as connection:
            connection.execute(self._db.upsert(settings), {"key": key, "value": value})


def read_setting(connection: sa.Connection, key: str, default: Any) -> Any:
    value = connection.execute(sa.select(settings.c.value).where(settings.c.key == key)).scalar()
    return default if value is None else value
