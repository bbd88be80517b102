"""Where the service answers, and with which token: arguments, then the environment, then the data folder."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from schedulearn.client.errors import ServiceUnreachable
from schedulearn.pinned import without_pin

DATA, URL, TOKEN = "SCHEDULEARN_DATA", "SCHEDULEARN_URL", "SCHEDULEARN_TOKEN"


class Address(NamedTuple):
    url: str
    token: str


def find_service(url: str | None = None, token: str | None = None) -> Address:
    """The address and the token to use; ServiceUnreachable if no address is known.

    The stored token belongs to the stored address: it is never sent to another one. The fingerprint of the certificate
    belongs to that address, too, and need not be said again.
    """
    url = url or os.environ.get(URL)
    token = token or os.environ.get(TOKEN)
    stored = _stored()
    if not url and not stored:
        raise ServiceUnreachable(f"no service is known on this machine; start one with `schedulearn up`, or set {URL}")
    if stored:
        if not url or ("#" in stored.url and url.rstrip("/") == without_pin(stored.url)):
            url = stored.url
        if not token and url.rstrip("/") == stored.url.rstrip("/"):
            token = stored.token
    return Address(url or "", token or "")


def _stored() -> Address | None:
    """What the service left for its own machine's users; None if it is not there or not readable."""
    folder = os.environ.get(DATA)
    file = (Path(folder) if folder else Path.home() / ".schedulearn") / "client.json"
    try:
        data = json.loads(file.read_text("utf-8"))
        return Address(str(data["url"]), str(data["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
