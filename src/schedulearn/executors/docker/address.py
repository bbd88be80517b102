"""Addresses of Docker Engines, as administrators write them."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import SplitResult, urlsplit

from schedulearn.core.domain.errors import InvalidSpec

ALLOWED = "unix:///var/run/docker.sock, tcp://HOST:2376 (with TLS) or ssh://USER@HOST"
SOCKET = "/var/run/docker.sock"
TLS_PORT = 2376
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,252}")
_IP = re.compile(r"[0-9.]+|.*:.*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_PATH = re.compile(r"/[^\x00-\x20\x7f:]{1,100}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine answers: on a socket of this machine, over TCP with TLS, or behind SSH."""

    scheme: str  # unix, tcp, ssh
    host: str = ""
    port: int | None = None
    user: str = ""
    path: str = ""  # of the engine's socket, here or on the other side

    @property
    def on_this_machine(self) -> bool:
        return self.scheme == "unix"

    @property
    def default_name(self) -> str:
        """A name for the node: its host, or the name of its socket."""
        if self.host:
            return self.host if _IP.fullmatch(self.host) else self.host.split(".")[0]
        return PurePosixPath(self.path).stem

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        path = "" if self.scheme == "ssh" and self.path == SOCKET else self.path
        return f"{self.scheme}://{user}{host}{port}{path}"


def parse_address(text: str) -> Address:
    """InvalidSpec, with what would be right, if it is no address of an engine."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _wrong(text, "it cannot be understood") from None
    if parts.password is not None:
        raise _wrong(f"{parts.scheme}://…", "no password belongs there (SSH uses keys, TLS certificates)")
    read = {"unix": _unix, "tcp": _tcp, "ssh": _ssh}.get(text.partition("://")[0])
    if read is None:
        raise _wrong(text, "it begins with none of unix://, tcp://, ssh://")
    if "?" in text or "#" in text:
        raise _wrong(text, "it has a query or a fragment")
    return read(text, parts, port)


def _unix(text: str, parts: SplitResult, _: int | None) -> Address:
    if parts.netloc or not _PATH.fullmatch(parts.path):
        raise _wrong(text, "it is no absolute path of a socket (at most 100 characters)")
    return Address("unix", path=parts.path)


def _tcp(text: str, parts: SplitResult, port: int | None) -> Address:
    if parts.path not in ("", "/") or parts.username or not _HOST.fullmatch(parts.hostname or ""):
        raise _wrong(text, "it is not tcp://HOST:PORT")
    return Address("tcp", parts.hostname or "", port or TLS_PORT)


def _ssh(text: str, parts: SplitResult, port: int | None) -> Address:
    # What begins with a dash would be taken for an option of ssh.
    if not _HOST.fullmatch(parts.hostname or "") or (parts.username and not _USER.fullmatch(parts.username)):
        raise _wrong(text, "it is not ssh://USER@HOST")
    path = parts.path if parts.path not in ("", "/") else SOCKET
    if not _PATH.fullmatch(path):
        raise _wrong(text, "the path of the socket is not usable")
    return Address("ssh", parts.hostname or "", port, parts.username or "", path)


def _wrong(text: str, problem: str) -> InvalidSpec:
    return InvalidSpec("address", f"{text[:100]!r} is no address of a Docker Engine: {problem}", ALLOWED)
