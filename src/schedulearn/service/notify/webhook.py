"""A signed POST to a web address: one try, bounded in time, to the very machine that was looked at.

The signature is that of Standard Webhooks (standardwebhooks.com), so that its libraries can check it.
"""

import base64
import hashlib
import hmac
import http.client
import ipaddress
import json
import secrets
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from schedulearn import __version__
from schedulearn.service.notify.content import Undelivered

_PREFIX = "whsec_"
_GONE = 410  # the receiver says that it will never want it
_UNICAST = ipaddress.ip_network("2000::/3")
# Addresses of IPv6 that lead to one of IPv4, which may be private: 6to4 and Teredo.
_WRAPPED = (ipaddress.ip_network("2002::/16"), ipaddress.ip_network("2001::/32"))


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def sign(secret: str, id: str, at: int, body: bytes) -> str:
    """`v1,…`: the HMAC-SHA256 of what is sent, with when and under which id."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(signed).decode()


def post(url: str, content: dict[str, Any], secret: str, at: float, *, public_only: bool, timeout: float) -> None:
    """Send it once. Undelivered unless the answer is 2xx. Redirects are not followed: they could lead anywhere."""
    body = json.dumps({key: value for key, value in content.items() if key != "id"}).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"schedulearn/{__version__}",
        "webhook-id": content["id"],
        "webhook-timestamp": str(int(at)),
        "webhook-signature": sign(secret, content["id"], int(at), body),
    }
    try:
        status = _exchange(url, body, headers, public_only, timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Undelivered(_words(error, timeout)) from error
    if not 200 <= status < 300:
        raise Undelivered(f"the answer was {status}", final=status == _GONE)


def _exchange(url: str, body: bytes, headers: dict[str, str], public_only: bool, timeout: float) -> int:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    end = time.monotonic() + timeout
    with _Deadline(_connect(host, port, public_only, end), end - time.monotonic()) as deadline:
        if secure:
            deadline.secure(host)
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        connection.sock = deadline.socket
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Host": parts.netloc, "Connection": "close", **headers})
        # Nothing of the answer but its status is read: the user that named the address learns no more from us.
        return connection.getresponse().status


def _connect(host: str, port: int, public_only: bool, end: float) -> socket.socket:
    """To an address that was looked at: the name is not asked again, so it cannot lead elsewhere meanwhile."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if public_only and not all(is_public(str(place[0])) for *_, place in found):
        raise Undelivered(f"{host} is in a private network, and only public addresses are allowed", final=True)
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, place in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_left(end))  # of all together: a name may have a hundred addresses
            made.connect(place)
            return made
        except OSError as error:
            made.close()
            last = error
    raise last


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def is_public(text: str) -> bool:
    """Whether it is an address of the open internet, and wraps none that is not."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    if address.ipv4_mapped:
        return is_public(str(address.ipv4_mapped))
    return address in _UNICAST and address.is_global and not any(address in network for network in _WRAPPED)


class _Deadline:
    """Cuts a connection off when its time is up, however slowly the other side drips."""

    def __init__(self, connected: socket.socket, timeout: float) -> None:
        self.socket = connected
        self._timer = threading.Timer(timeout, self._cut)
        self._over = False

    def __enter__(self) -> "_Deadline":
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self.socket.close()
        if self._over:  # whatever was read by then is only a part
            raise TimeoutError

    def secure(self, host: str) -> None:
        context = ssl.create_default_context()
        self.socket = context.wrap_socket(self.socket, server_hostname=host, do_handshake_on_connect=False)
        self.socket.do_handshake()

    def _cut(self) -> None:
        self._over = True
        with suppress(OSError):  # it may be closed already
            # The plain one: TLS would want to say goodbye first.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


def _words(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection ended without an answer"
    if isinstance(error, http.client.HTTPException):
        return "the answer was not that of a web server"  # its words are not ours to show
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"it cannot be reached: {text}"
