"""The keys that workers' records are signed with: made of one secret of the service; each shim is given its own."""

import os
import secrets
import tempfile
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any

from schedulearn.executors.common.signed import KEY_SIZE, SIGNATURE, signature

_NAME = "secret"  # the file below the executor's folder


def genuine(record: dict[str, Any], what: str, folder: Path) -> bool:
    """Whether the shim or the executor of the worker with this folder has signed it as it is now."""
    rest = {name: value for name, value in record.items() if name != SIGNATURE}
    return compare_digest(str(record.get(SIGNATURE)).encode(), signature(rest, what, worker_key(folder)).encode())


def worker_key(folder: Path) -> bytes:
    """Of the worker with this folder. No worker finds out the key of another worker from it."""
    worker = f"{folder.parts[-4]}.{folder.parts[-2]}.{folder.parts[-1]}"
    return blake2b(f"worker {worker}".encode(), key=_secret(folder.parents[4]), digest_size=KEY_SIZE).digest()


def _secret(root: Path) -> bytes:
    """Made when it is first needed. Read anew each time: few bytes, and never those of another folder."""
    path = root / _NAME
    with suppress(FileNotFoundError):
        return path.read_bytes()
    handle, name = tempfile.mkstemp(prefix=f".{_NAME}.", dir=root)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_SIZE))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another one was faster
            path.hardlink_to(name)
    finally:
        Path(name).unlink()
    return path.read_bytes()
