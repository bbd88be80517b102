"""The web page. It reads the public API through the client, with the token of its reader, and nothing else.

Nothing heavy is imported before the page is opened.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.dashboard.lazy import LazyPage

if TYPE_CHECKING:
    from schedulearn.dashboard.site import Site


def page(url: str, logins: Path | None = None, key: str = "") -> LazyPage:
    """The page as an ASGI application, for the service at this address; `logins` is where it keeps who is logged in.

    With the service's `key` its audit log has the addresses of browsers; else that of the page.
    """

    def load() -> "Site":
        from schedulearn.dashboard.site import Site

        return Site(url, logins, key)

    return LazyPage(load)
