"""Nodes and leases, for reading. The scheduler's cycles write them."""

import sqlalchemy as sa

from schedulearn.core.domain.job import Lease
from schedulearn.core.domain.node import Device, Node
from schedulearn.store.base import Part
from schedulearn.store.codec import made
from schedulearn.store.tables import devices, leases, nodes


class Fleet(Part):
    def list_nodes(self) -> list[Node]:
        """By name."""
        with self._db.read() as connection:
            return read_nodes(connection)

    def leases(self) -> list[Lease]:
        """All that are held now."""
        with self._db.read() as connection:
            return read_leases(connection)


def read_nodes(connection: sa.Connection) -> list[Node]:
    had: dict[str, list[Device]] = {}
    for row in connection.execute(sa.select(devices).order_by(devices.c.node, devices.c.position)):
        had.setdefault(row.node, []).append(made(Device, row))
    rows = connection.execute(sa.select(nodes).order_by(nodes.c.name))
    return [made(Node, row, devices=tuple(had.get(row.name, ()))) for row in rows]


def read_leases(connection: sa.Connection) -> list[Lease]:
    query = sa.select(leases).order_by(leases.c.job, leases.c.attempt, leases.c.rank)
    return [made(Lease, row) for row in connection.execute(query)]
