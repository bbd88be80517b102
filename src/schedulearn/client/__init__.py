"""The typed HTTP client: what the command line, a dashboard and a notebook call. Standard library only.

from schedulearn.client import Client

with Client() as client:
    job = client.submit({"command": "python train.py"})
    print(client.wait(job["id"])["state"])
"""

from typing import TYPE_CHECKING, Any

from schedulearn.client.client import Client as Client
from schedulearn.client.client import new_key as new_key
from schedulearn.client.errors import ApiError as ApiError
from schedulearn.client.errors import ClientError as ClientError
from schedulearn.client.errors import LinkLeavesFolder as LinkLeavesFolder
from schedulearn.client.errors import MaybeSubmitted as MaybeSubmitted
from schedulearn.client.errors import MissingVariable as MissingVariable
from schedulearn.client.errors import NoAnswer as NoAnswer
from schedulearn.client.errors import NoSuchJob as NoSuchJob
from schedulearn.client.errors import NotTrusted as NotTrusted
from schedulearn.client.errors import ServiceUnreachable as ServiceUnreachable
from schedulearn.client.errors import SnapshotError as SnapshotError
from schedulearn.client.errors import SnapshotTooLarge as SnapshotTooLarge
from schedulearn.client.errors import WaitTimeout as WaitTimeout
from schedulearn.client.running import STDERR as STDERR
from schedulearn.client.running import STDOUT as STDOUT
from schedulearn.client.running import Running as Running
from schedulearn.wire import types as types
from schedulearn.wire.types import FINISHED as FINISHED

if TYPE_CHECKING:
    from schedulearn.client.entries import Entry as Entry
    from schedulearn.client.entries import list_entries as list_entries
    from schedulearn.client.snapshot import Snapshot as Snapshot
    from schedulearn.client.snapshot import make_snapshot as make_snapshot


def __getattr__(name: str) -> Any:
    """What packs a folder is loaded when it is first asked for: most programs never do."""
    if name in {"Entry", "Snapshot", "list_entries", "make_snapshot"}:
        from schedulearn.client import snapshot

        return getattr(snapshot, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
