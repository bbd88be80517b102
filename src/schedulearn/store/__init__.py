"""What is kept: the state of jobs, nodes and leases, the history, metrics, users. SQLite or PostgreSQL."""
# ruff: noqa: I001 (each name once: `X as X` says that others may have it from here)

from schedulearn.store.appending import MOST_SERIES as MOST_SERIES
from schedulearn.store.audit import AuditFilter as AuditFilter, acting as acting
from schedulearn.store.store import Store as Store, open_store as open_store
from schedulearn.store.types import (
    GIVEN_UP as GIVEN_UP,
    Actor as Actor,
    AuditEntry as AuditEntry,
    Curve as Curve,
    CurvePoint as CurvePoint,
    Cycle as Cycle,
    Found as Found,
    JobRow as JobRow,
    JobSort as JobSort,
    Mark as Mark,
    NewNotice as NewNotice,
    News as News,
    Notice as Notice,
    NoticeState as NoticeState,
    Once as Once,
    OutputPlace as OutputPlace,
    Point as Point,
    Progress as Progress,
    Request as Request,
    SavedState as SavedState,
    Series as Series,
    Source as Source,
    Span as Span,
    StoredEvent as StoredEvent,
    Subscription as Subscription,
    Taken as Taken,
    Timeline as Timeline,
    TokenRow as TokenRow,
    UsageSample as UsageSample,
    UserChanges as UserChanges,
    UserRole as UserRole,
    UserRow as UserRow,
    WorkerPlacement as WorkerPlacement,
    WorkerUsage as WorkerUsage,
)
