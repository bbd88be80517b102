"""The name that a service gives to all it starts, so that it finds its own again and touches no other's."""

import hashlib
import os
import secrets
from pathlib import Path

_NAME = "instance"  # the file in the data folder


def token_of(root: Path) -> str:
    """What tells this data folder from every other one; "" as long as nothing does."""
    try:
        return (root / _NAME).read_text()
    except FileNotFoundError:
        return ""


def ensured(root: Path) -> str:
    """The same, made if need be."""
    return token_of(root) or _made(root)


def renew(root: Path) -> None:
    """From now on it is another one: what was started before is not its own any more."""
    (root / _NAME).unlink(missing_ok=True)


def instance_of(root: Path) -> str:
    """The name of the service with this data folder. Neither a copy of it nor a new one in its place has the same."""
    return hashlib.sha256(f"{ensured(root)} {root.resolve()}".encode()).hexdigest()[:12]


def _made(root: Path) -> str:
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / f".{_NAME}-{os.getpid()}-{secrets.token_hex(4)}"
    fresh.write_text(secrets.token_hex(16))
    try:
        os.link(fresh, root / _NAME)  # only one of two that begin at the same time can
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return token_of(root)
