"""The name that a service gives to all it starts, so that it finds its own again and touches no other's."""

import hashlib
import secrets
from pathlib import Path

from schedulearn.executors.common.paths import make_once

_NAME = "instance"  # the file in the data folder


def token_of(root: Path) -> str:
    """What tells this data folder from every other one; "" as long as nothing does."""
    try:
        return (root / _NAME).read_text()
    except FileNotFoundError:
        return ""


def ensured(root: Path) -> str:
    """The same, made if need be."""
    return make_once(root / _NAME, secrets.token_hex(16).encode()).decode()


def renew(root: Path) -> None:
    """From now on it is another one: what was started before is not its own any more."""
    (root / _NAME).unlink(missing_ok=True)


def instance_of(root: Path) -> str:
    """The name of the service with this data folder. Neither a copy of it nor a new one in its place has the same."""
    return hashlib.sha256(f"{ensured(root)} {root.resolve()}".encode()).hexdigest()[:12]
