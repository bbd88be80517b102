"""The typed HTTP client: what the command line, a dashboard and a notebook call. Standard library only.

from schedulearn.client import Client

with Client() as client:
    job = client.submit({"command": "python train.py"})
    print(client.wait(job["id"])["state"])
"""

from typing import TYPE_CHECKING, Any

from schedulearn.client.client import Client, new_key
from schedulearn.client.errors import (
    ApiError,
    ClientError,
    LinkLeavesFolder,
    MaybeSubmitted,
    MissingVariable,
    NoAnswer,
    NoSuchJob,
    NotTrusted,
    ServiceUnreachable,
    SnapshotError,
    SnapshotTooLarge,
    WaitTimeout,
)
from schedulearn.client.running import STDERR, STDOUT, Running
from schedulearn.wire import types
from schedulearn.wire.types import FINISHED

if TYPE_CHECKING:
    from schedulearn.client.snapshot import Entry, Snapshot, list_entries, make_snapshot

__all__ = [
    "FINISHED",
    "STDERR",
    "STDOUT",
    "ApiError",
    "Client",
    "ClientError",
    "Entry",
    "LinkLeavesFolder",
    "MaybeSubmitted",
    "MissingVariable",
    "NoAnswer",
    "NoSuchJob",
    "NotTrusted",
    "Running",
    "ServiceUnreachable",
    "Snapshot",
    "SnapshotError",
    "SnapshotTooLarge",
    "WaitTimeout",
    "list_entries",
    "make_snapshot",
    "new_key",
    "types",
]


def __getattr__(name: str) -> Any:
    """What packs a folder is loaded when it is first asked for: most programs never do."""
    if name in {"Entry", "Snapshot", "list_entries", "make_snapshot"}:
        from schedulearn.client import snapshot

        return getattr(snapshot, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
