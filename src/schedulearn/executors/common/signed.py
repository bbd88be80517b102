"""Records that only the service and its own shims can make. Part of the shim: standard library only, few imports."""

from __future__ import annotations

import json
from _blake2 import blake2b  # as in hashlib, without loading all other algorithms

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from typing import Any

KEY_SIZE = 32  # bytes
CLAIM, EXIT = "claim", "exit"  # what a record is: one cannot pass for the other
SIGNATURE = "signature"  # the field with it


def signed(record: dict[str, Any], what: str, key: bytes) -> dict[str, Any]:
    """The record with a signature in it."""
    return {**record, SIGNATURE: signature(record, what, key)}


def signature(record: dict[str, Any], what: str, key: bytes) -> str:
    text = json.dumps(record, sort_keys=True)
    return blake2b(f"{what} {text}".encode(), key=key, digest_size=16).hexdigest()
