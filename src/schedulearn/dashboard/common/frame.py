"""What every page has: the bar at the top, a line for trouble, and the loop that keeps it fresh."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from nicegui import ui

from schedulearn.client import ApiError, Client, NoSuchJob, ServiceUnreachable, types
from schedulearn.dashboard.access.guard import login_address
from schedulearn.dashboard.access.session import KEY, Session
from schedulearn.dashboard.common.live import Live
from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import panel

T = TypeVar("T")
EVERY = 1.0  # seconds between two looks
_HEAD = (
    '<link rel="stylesheet" href="/static/page.css">'
    '<link rel="icon" href="/static/icon.svg">'
    '<script src="/static/page.js"></script>'
)


PLACES = {  # in the bar
    "/": "Overview",
    "/jobs": "Jobs",
    "/timeline": "Timeline",
    "/submit": "Submit",
    "/policies": "Policies",
    "/results": "Results",
}


class Frame:
    """The frame of one open page. Make it first; what is made then is the page's content."""

    def __init__(self, request: Request, title: str, here: str) -> None:
        self.session: Session = request.scope[KEY]
        self._address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        ui.page_title(f"{title} · Schedulearn")
        ui.add_head_html(_HEAD)
        ui.colors(primary="#2f5fd0", negative="#c5363c", positive="#17724a")
        Live(_bar(self.session.user, here), tag="header").classes("top")
        self._trouble = Live().props('role="status" aria-live="polite"').classes("trouble")

    def keep(self, look: Callable[[], Awaitable[object]], every: float = EVERY) -> None:
        """Look now and then, for as long as the page is open; say so while that does not work.

        Once for each page, and each look asks the service: one that does not would hide what another has found.
        """
        ui.timer(every, lambda: self.attempt(look))

    def missing(self, title: str, words: str, link: str, href: str) -> None:
        """In place of the page's content: what was asked for is not there (404), and the way to what is."""
        ui.context.client.status_code = 404
        Live(panel(title, el("p", f"{words} ", el("a", link, href=href), class_="empty")))

    async def first(self, call: Callable[[Client], T]) -> T | None:
        """What a page cannot be made without. None if the service does not answer; then it is loaded anew."""
        found: list[T] = []

        async def ask() -> None:
            found.append(await self.session.ask(call))

        async def again() -> None:
            await self.session.overview()
            ui.navigate.reload()

        if not await self.attempt(ask):
            self.keep(again)
        return found[0] if found else None

    async def attempt(self, look: Callable[[], Awaitable[object]]) -> bool:
        """Do something that needs the service; whether it answered. Trouble is told; NoSuchJob is raised."""
        try:
            await look()
        except ServiceUnreachable as problem:
            self._trouble.show(_away(str(problem)))
            return False
        except NoSuchJob:
            raise
        except ApiError as problem:
            if problem.status == 401:
                ui.navigate.to(login_address(self._address, ended=True))
            self._trouble.show(_refused(str(problem)))
            return False
        self._trouble.show(Safe(""))
        return True


def _bar(user: types.User, here: str) -> Safe:
    links = [
        el("a", title, href=address, aria_current="page" if address == here else None)
        for address, title in PLACES.items()
    ]
    return join(
        el("a", el("img", src="/static/icon.svg", alt=""), el("span", "Schedulearn"), class_="brand", href="/"),
        el("nav", links, aria_label="Pages"),
        el("button", el("span", "◐", aria_hidden="true"), id="theme", type="button", aria_label="Light or dark"),
        el("span", user["name"], class_="who", title=f"logged in as {user['role']}"),
        el("form", el("button", "Log out", type="submit"), method="post", action="/logout"),
    )


def _away(problem: str) -> Safe:
    words = "The service does not answer; this is the last known state. Retrying …"
    return el("p", el("b", words), " ", el("span", problem), class_="problem")


def _refused(problem: str) -> Safe:
    return el("p", el("b", problem), class_="problem")
