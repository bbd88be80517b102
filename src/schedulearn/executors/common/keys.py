"""The keys that workers' records are signed with: made of one secret of the service; each shim is given its own."""

import secrets
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any

from schedulearn.executors.common.paths import make_once
from schedulearn.executors.common.signed import KEY_SIZE, SIGNATURE, signature

_NAME = "secret"  # the file below the executor's folder


def genuine(record: dict[str, Any], what: str, folder: Path) -> bool:
    """Whether the shim or the executor of the worker with this folder has signed it as it is now."""
    rest = {name: value for name, value in record.items() if name != SIGNATURE}
    return compare_digest(str(record.get(SIGNATURE)).encode(), signature(rest, what, worker_key(folder)).encode())


def worker_key(folder: Path) -> bytes:
    """Of the worker with this folder. No worker finds out the key of another worker from it."""
    worker = f"{folder.parts[-4]}.{folder.parts[-2]}.{folder.parts[-1]}"
    # Read anew each time: few bytes, and never those of another folder.
    secret = make_once(folder.parents[4] / _NAME, secrets.token_bytes(KEY_SIZE))
    return blake2b(f"worker {worker}".encode(), key=secret, digest_size=KEY_SIZE).digest()
