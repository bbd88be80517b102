"""Pages that were sent, and whose browser has not come back yet with a socket: a program that only reads never does.

The library forgets such a page after a minute. Each holds a quarter of a megabyte until then, so only the newest are
kept: a client that asks for pages all the time cannot fill the memory.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps

from nicegui import Client, ui

MOST = 100  # a browser that comes back to a page that was forgotten loads it again


class Unseen:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._pages: OrderedDict[str, Client] = OrderedDict()

    def add(self, client: Client) -> None:
        """A page is ready to be sent. If there are too many, the oldest are forgotten."""
        number = client.id

        def known() -> None:
            self._pages.pop(number, None)

        client.on_connect(known)
        client.on_delete(known)
        self._pages[number] = client
        while len(self._pages) > self._most:
            self._pages.popitem(last=False)[1].delete()


_unseen = Unseen()


def counted(page: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The same page, with each time that it is made counted here."""

    @wraps(page)
    async def counted_page(*args: object, **more: object) -> None:
        await page(*args, **more)
        _unseen.add(ui.context.client)

    return counted_page
