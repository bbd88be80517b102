"""Connections to the service, for the client and for what runs inside of jobs. Standard library only.

An address may name the one certificate that is right: `https://lab:7311#sha256=…`. Then no authority is asked, and
nothing is sent to whoever shows another one. What follows the `#` is never sent to anybody.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

_DATES = {  # by the number that OpenSSL has for it
    9: "its certificate is not valid yet, or the clock of this machine is slow",
    10: "its certificate has expired",
}
_PIN = re.compile(r"sha256=((?:[0-9a-fA-F]{2}:?){31}[0-9a-fA-F]{2})")


class WrongCertificate(OSError):
    """Whoever answers has another certificate than the one that the address names."""

    def __init__(self, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(f"its certificate has the fingerprint sha256={found}, not {wanted}: nothing was sent to it")


class Address(NamedTuple):
    """An address in its parts."""

    secure: bool
    host: str
    port: int | None
    path: str  # without a slash at the end
    pin: str  # the fingerprint of the certificate, as 64 digits; "": an authority has to vouch for it

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """A connection that is not open yet; it opens with the first request."""
        if not self.secure:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        if not self.pin:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout)
        return _Pinned(self.host, self.port, self.pin, timeout)


def address_of(url: str) -> Address:
    """ValueError, in words, if it is none."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:7311")
    pin = _PIN.fullmatch(parts.fragment)
    if parts.fragment and not (pin and parts.scheme == "https"):
        right = "https://lab:7311#sha256=, and 64 hexadecimal digits"
        raise ValueError(f"{url!r}: what follows the # must be the fingerprint of a certificate, as in {right}")
    digits = pin[1].replace(":", "").lower() if pin else ""
    return Address(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"), digits)


def without_pin(url: str) -> str:
    """The address as browsers and people know it."""
    return url.partition("#")[0].rstrip("/")


def with_pin(url: str, pin: str) -> str:
    return f"{without_pin(url)}#sha256={pin}" if pin else without_pin(url)


def distrust(problem: BaseException) -> str:
    """Why whoever answers is not believed to be the service, in words; "" if the problem is another one."""
    if isinstance(problem, WrongCertificate):
        return str(problem)
    if isinstance(problem, ssl.SSLCertVerificationError):
        return _DATES.get(problem.verify_code) or problem.verify_message
    return ""


class _Pinned(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int | None, pin: str, timeout: float) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is looked at below, before all else
        super().__init__(host, port, timeout=timeout, context=context)
        self._pin = pin

    def connect(self) -> None:
        super().connect()
        shown = self.sock.getpeercert(binary_form=True) or b""
        found = hashlib.sha256(shown).hexdigest()
        if not hmac.compare_digest(found, self._pin):
            self.close()
            raise WrongCertificate(found, self._pin)
