"""Which browsers are logged in.

A browser keeps an id, made by chance, that is good for the page alone; the service knows nothing of it. The page keeps
the token that belongs to it, sealed with the id: what is on the disk is of no use without the browser, and what the
browser has is of no use without the page.
"""

import base64
import hashlib
import json
import logging
import os
import secrets
import threading
from dataclasses import asdict, dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from schedulearn.wire import types

_MOST = 20  # of one user, as many as the service keeps tokens for
_HERE = "this machine"
log = logging.getLogger(__name__)


class LogIn(NamedTuple):
    number: int  # of the token
    token: str


@dataclass(frozen=True, slots=True)
class _Kept:
    user: str
    number: int
    sealed: str
    place: str  # where the browser was when it logged in


class LogIns:
    """The log-ins of one page. They outlive it where there is a file for them."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._kept = _load(file) if file else {}  # by the hash of the id; the oldest first

    def add(self, made: types.NewToken, address: str) -> str:
        """The id for a browser that has just logged in."""
        number = secrets.token_urlsafe(32)
        with self._lock:
            theirs = [key for key, kept in self._kept.items() if kept.user == made["user"]]
            for key in theirs[: max(0, len(theirs) + 1 - _MOST)]:
                del self._kept[key]
            sealed = base64.b64encode(_sealed(made["token"].encode(), number)).decode()
            self._kept[_hash(number)] = _Kept(made["user"], made["id"], sealed, _place(address))
            self._save()
        return number

    def find(self, number: str, address: str) -> LogIn | None:
        """None: it was never there, is gone, or was stolen: it comes from elsewhere than from where it was made."""
        kept = self._kept.get(_hash(number))
        if kept is None or kept.place != _place(address):
            return None
        return LogIn(kept.number, _sealed(base64.b64decode(kept.sealed), number).decode())

    def remove(self, number: str) -> None:
        with self._lock:
            if self._kept.pop(_hash(number), None):
                self._save()

    def _save(self) -> None:
        if self._file is None:
            return
        content = json.dumps({key: asdict(kept) for key, kept in self._kept.items()})
        fresh = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
            fresh.unlink(missing_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content)
            fresh.replace(self._file)
        except OSError as problem:
            log.warning("log-ins cannot be saved and end with the page: %s", problem)


def _load(file: Path) -> dict[str, _Kept]:
    try:
        return {str(key): _Kept(**kept) for key, kept in json.loads(file.read_text("utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        log.warning("all users have to log in to the page again: %s", problem)
        return {}


def _hash(number: str) -> str:
    return hashlib.sha256(number.encode()).hexdigest()


def _sealed(content: bytes, number: str) -> bytes:
    """Seals, and opens again. Each id seals one thing, so its stream of bytes is never used twice."""
    stream = hashlib.shake_256(b"schedulearn page " + number.encode()).digest(len(content))
    return bytes(a ^ b for a, b in zip(content, stream, strict=True))


def _place(address: str) -> str:
    """An address as far as it stays the same: of IPv6, systems change the last half every day."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_loopback:
        return _HERE
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)
