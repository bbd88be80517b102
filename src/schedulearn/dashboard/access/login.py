"""Logging in and out: plain pages, without the machinery of the others."""

import asyncio
import re
from contextlib import suppress
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from schedulearn.client import ApiError, Client, ClientError, ServiceUnreachable, types
from schedulearn.dashboard.access.guard import address_in, cookie_for, cookie_name, is_secure, login_in, source_in
from schedulearn.dashboard.access.logins import LogIns
from schedulearn.dashboard.access.session import Sessions
from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import problem as problem_of

_ENDED = (
    "Your session has ended: it was revoked, was not used for 30 days, or began at another network address. "
    "Please log in again."
)
_TOO_LONG = 10_000  # bytes of a form
_A_TOKEN = re.compile(r"[!-~]+")
_OURS = re.compile(r"/(?![/\\])[!-~]*")  # of this site, also to browsers, which skip blanks and turn backslashes


def login_routes(sessions: Sessions, logins: LogIns) -> APIRouter:
    router = APIRouter()

    @router.get("/login")
    def show(request: Request, once: str = "", next: str = "/", ended: str = "") -> Response:
        """The form. A one-time code is not used up yet: programs that only preview a link would do that too."""
        try:
            _knock(sessions.connect("-", source_in(request.scope)))
        except ServiceUnreachable as problem:
            return away_page(str(problem))
        return _button(once) if once else _form(next, _ENDED if ended else "")

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        form = parse_qs((await request.body())[:_TOO_LONG].decode("utf-8", "replace"))
        once, token, wanted = (form.get(name, [""])[0].strip() for name in ("once", "token", "next"))
        try:
            client = sessions.connect(token if _A_TOKEN.fullmatch(token) else "-", source_in(request.scope))
            made = await asyncio.to_thread(_redeem, client, once)
            login = await asyncio.to_thread(logins.add, made, address_in(request.scope))
            return _welcome(request, login, wanted)
        except ApiError as problem:
            invalid = problem.status == 401 and not once
            return _form(wanted, "This token is not valid." if invalid else _sentence(str(problem)), 401)
        except ServiceUnreachable as problem:
            return _form(wanted, str(problem), 503)

    @router.post("/logout")
    def log_out(request: Request) -> Response:
        headers, scheme = request.headers, request.url.scheme
        login = login_in(headers, scheme)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(cookie_name(headers, scheme), secure=is_secure(headers, scheme), httponly=True)
        found = logins.find(login, address_in(request.scope))
        logins.remove(login)
        if found:
            sessions.forget(found.token)
            # It may be gone already, or ends later: no browser has it any more.
            with suppress(ClientError), sessions.connect(found.token, source_in(request.scope)) as client:
                client.revoke_token(found.number)
        return answer

    return router


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _knock(client: Client) -> None:
    """ServiceUnreachable if nothing answers; any answer will do."""
    with suppress(ApiError), client:
        client.health()


def _redeem(client: Client, code: str) -> types.NewToken:
    """A token for this browser alone, so that logging out can take it back without touching one that was typed."""
    with client:
        return client.log_in(code or client.login_code()["code"])


def _welcome(request: Request, login: str, wanted: str) -> Response:
    """Sets the cookie, and goes on to the page that was asked for."""
    answer = RedirectResponse(wanted if _OURS.fullmatch(wanted) else "/", 303, {"Cache-Control": "no-store"})
    answer.headers.append("Set-Cookie", cookie_for(request.headers, request.url.scheme, login))
    return answer


def _button(code: str) -> Response:
    form = el(
        "form",
        el("p", "This link logs you in once."),
        el("input", type="hidden", name="once", value=code),
        el("button", "Log in", type="submit", class_="primary", autofocus=True),
        method="post",
        action="/login",
    )
    return _page("Log in", form)


def _form(wanted: str, problem: str = "", status: int = 200) -> Response:
    said = problem_of(problem) if problem else None
    form = el(
        "form",
        el("label", "Token", for_="token"),
        el("input", type="password", id="token", name="token", required=True, autofocus=True, autocomplete="off"),
        el("input", type="hidden", name="next", value=wanted),
        el("button", "Log in", type="submit", class_="primary"),
        method="post",
        action="/login",
    )
    hint = el(
        "p",
        "Or get a one-time login link: ",
        el("code", "schedulearn tokens link"),
        ". The service also prints one when it starts.",
        class_="hint",
    )
    return _page("Log in", join(said, form, hint), status=status)


def away_page(problem: str) -> Response:
    """In place of any page, while the service does not answer."""
    words = problem_of("The service does not answer. This page retries by itself.")
    again = el("meta", http_equiv="refresh", content="3")
    return _page("No answer", join(words, el("p", problem, class_="hint")), again, 503)


def _page(title: str, body: Safe, head: Safe | None = None, status: int = 200) -> HTMLResponse:
    card = el("main", el("h1", "Schedulearn", class_="brand"), body, class_="card")
    content = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("title", f"{title} · Schedulearn"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            head,
            el("link", rel="icon", href="/static/icon.svg"),
            el("link", rel="stylesheet", href="/static/page.css"),
            el("script", src="/static/page.js"),
        ),
        el("body", card, class_="plain"),
        lang="en",
    )
    return HTMLResponse(f"<!doctype html>{content}", status, headers={"Cache-Control": "no-store"})
