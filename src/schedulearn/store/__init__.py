"""What is kept: the state of jobs, nodes and leases, the history, metrics, users. SQLite or PostgreSQL."""

from schedulearn.store.store import Store, open_store
from schedulearn.store.types import (
    CurvePoint,
    Cycle,
    JobRow,
    JobSort,
    Placement,
    Point,
    Progress,
    Request,
    SavedState,
    Series,
    Source,
    StoredEvent,
    TokenRow,
    UserChanges,
    UserRole,
    UserRow,
)

__all__ = [
    "CurvePoint",
    "Cycle",
    "JobRow",
    "JobSort",
    "Placement",
    "Point",
    "Progress",
    "Request",
    "SavedState",
    "Series",
    "Source",
    "Store",
    "StoredEvent",
    "TokenRow",
    "UserChanges",
    "UserRole",
    "UserRow",
    "open_store",
]
