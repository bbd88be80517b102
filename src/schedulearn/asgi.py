"""What the API and the page share as ASGI applications of one server."""

import asyncio
import time
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

TRUST = "schedulearn.trust"  # in a request's scope: to be called once the caller is known
PAGE = "X-Schedulearn-Page"  # the header: the page's key, and the address of the browser that it asks for


def bounded(receive: Receive, most: int, too_large: str, seconds: float, idle: float | None = None) -> Receive:
    """A body of at most so many bytes, in so many seconds, without a pause longer than `idle`."""
    seen, complete, until = 0, False, time.monotonic() + seconds

    async def bounded_receive() -> Message:
        nonlocal seen, complete
        if complete:  # what comes now is only the end of the connection, however long that takes
            return await receive()
        left = until - time.monotonic()
        try:
            message = await asyncio.wait_for(receive(), left if idle is None else min(idle, left))
        except TimeoutError:
            raise HTTPException(408, "the body of the request did not arrive in time") from None
        seen += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if seen > most:
            raise HTTPException(413, too_large)
        return message

    return bounded_receive


def is_loopback(address: str) -> bool:
    """Whether this is an address of the machine itself, which all on it, and behind a proxy on it, have."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
