"""What stands before every page: who is asking, from where, and what their browser may load."""

import re
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulearn.asgi import TRUST, bounded
from schedulearn.client import ServiceUnreachable
from schedulearn.dashboard.access.logins import LogIns
from schedulearn.dashboard.access.session import KEY, Session, Sessions, Source

# What needs no log-in: nothing of any user. A folder ends with a slash.
OPEN = ("/login", "/static/", "/favicon.ico")
_MOST_BODY = 2_000_000  # bytes of what a browser sends at once: a form, or what a page without a socket has to say
_MOST_OPEN = 50_000  # without a log-in
_BODY_TIME = 60.0  # seconds for all of it
_MOST_SOCKETS = 100  # pages that one log-in may have open
_KEEP = 60 * 86400  # seconds
_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")
_SCRIPT = re.compile(rb"<script(?=[\s>])")
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)  # 'unsafe-eval': templates of Vue are compiled in the browser. No script stands in a page without the nonce.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def is_secure(headers: Headers, scheme: str) -> bool:
    """Whether the browser came over TLS, to us or to a proxy in front. Who lies about it only harms themselves."""
    return headers.get("x-forwarded-proto", scheme) in ("https", "wss")


def cookie_name(headers: Headers, scheme: str) -> str:
    """With the port: browsers give a host's cookies to every port of it, and there may be several services.

    Over TLS browsers keep others, such as a page on another name of the same domain, from setting one so called.
    """
    _, _, port = headers.get("host", "").rpartition(":")
    name = f"schedulearn-{port if port.isascii() and port.isdigit() else 'page'}"
    return f"__Host-{name}" if is_secure(headers, scheme) else name


def login_in(headers: Headers, scheme: str) -> str:
    """The id in the cookie; nothing without one."""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers, scheme))
    except CookieError:
        morsel = None
    return morsel.value if morsel and _COOKIE.fullmatch(morsel.value) else ""


def cookie_for(headers: Headers, scheme: str, login: str) -> str:
    """The cookie that logs a browser in, anew with each page: it ends some time after the last one.

    It is kept for longer than the service keeps an unused token, so that the page can say that the log-in has ended.
    """
    carrier = Response()
    carrier.set_cookie(
        cookie_name(headers, scheme),
        login,
        max_age=_KEEP,
        httponly=True,
        samesite="lax",  # not strict: who follows a link to a page from elsewhere is logged in there too
        secure=is_secure(headers, scheme),
    )
    return carrier.headers["set-cookie"]


def address_in(scope: Scope) -> str:
    """Of the browser; that of the proxy, behind one."""
    return str((scope.get("client") or ("",))[0])


def source_in(scope: Scope) -> Source:
    return Source(address_in(scope), "x-forwarded-for" in Headers(scope=scope))


def login_address(wanted: str, ended: bool = False) -> str:
    """Where to log in, and go on from there; `ended`: to be told that one was logged in before."""
    query = {**({"ended": "1"} if ended else {}), **({} if wanted == "/" else {"next": wanted})}
    return "/login" + (f"?{urlencode(query)}" if query else "")


class Guard:
    """Lets logged-in people through, and what their own browser asks for on their behalf."""

    def __init__(self, app: ASGIApp, sessions: Sessions, logins: LogIns, away: Callable[[str], Response]) -> None:
        """`away` is what is shown while the service does not answer."""
        self._app, self._sessions, self._logins, self._away = app, sessions, logins, away

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        out = _Protected(send) if scope["type"] == "http" else send
        if not _same_origin(headers, scope["scheme"], changes):
            await _refuse(scope, receive, out)
            return
        if _is_open(scope["path"]):
            await self._app(scope, _bounded(receive, _MOST_OPEN) if scope["type"] == "http" else receive, out)
            return
        session = await self._session(scope, headers)
        if not isinstance(session, Session):
            await self._turn_away(session, scope, receive, out)
            return
        scope[KEY] = session
        if TRUST in scope:
            scope[TRUST]()
        if isinstance(out, _Protected):
            out.cookie = cookie_for(headers, scope["scheme"], login_in(headers, scope["scheme"]))
            await self._app(scope, _bounded(receive, _MOST_BODY), out)
        else:
            await self._socket(session, scope, receive, out)

    async def _socket(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        if session.sockets >= _MOST_SOCKETS:
            await _refuse(scope, receive, send)
            return
        session.sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            session.sockets -= 1

    async def _session(self, scope: Scope, headers: Headers) -> Session | ServiceUnreachable | None:
        login = login_in(headers, scope["scheme"])
        found = self._logins.find(login, address_in(scope)) if login else None
        if found is None:
            return None
        try:
            session = await self._sessions.find(found.token, source_in(scope))
        except ServiceUnreachable as problem:
            return problem
        if session is None:
            self._logins.remove(login)
        return session

    async def _turn_away(
        self, why: ServiceUnreachable | None, scope: Scope, receive: Receive, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif why:
            await self._away(str(why))(scope, receive, send)
        else:
            wanted = quote(scope["path"]) + (
                f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            )
            had_one = bool(login_in(Headers(scope=scope), scope["scheme"]))
            await RedirectResponse(login_address(wanted, had_one), 303)(scope, receive, send)


def _is_open(path: str) -> bool:
    return any(path.startswith(one) if one.endswith("/") else path == one for one in OPEN)


def _same_origin(headers: Headers, scheme: str, changes: bool) -> bool:
    """Whether a page of ours sent it. Browsers always say where a change comes from, and pages cannot lie.

    What only reads may come from nowhere, such as a bookmark; but the library would let any page read its answers. A
    page that came without TLS, which could have been written on the way, is not one of ours that came with it.
    """
    if (origin := headers.get("origin")) is None:
        return not changes
    how, _, host = origin.partition("://")
    return host == headers.get("host") and (how == "https" or not is_secure(headers, scheme))


def _bounded(receive: Receive, most: int) -> Receive:
    return bounded(receive, most, "the request is too large", _BODY_TIME)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await Response("the request does not come from this page", 403)(scope, receive, send)


class _Protected:
    """Adds the headers to an answer, and to a page of HTML the policy, whose nonce every script of it gets."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.cookie = ""  # to be set with a page
        self._nonce = secrets.token_urlsafe(16)
        self._start: Message | None = None  # of a page of HTML, until all of it is there
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            is_html = headers.get("content-type", "").startswith("text/html")
            if is_html and "content-security-policy" not in headers:  # a report brings a stricter one of its own
                headers["Content-Security-Policy"] = _POLICY.format(nonce=self._nonce)
                if self.cookie:
                    headers.append("Set-Cookie", self.cookie)
                self._start = message
                return
        elif self._start:
            self._body += message.get("body", b"")
            if message.get("more_body"):
                return
            message = {"type": "http.response.body", "body": self._with_nonce()}
            headers = MutableHeaders(raw=self._start["headers"])
            headers["Content-Length"] = str(len(message["body"]))
            await self._send(self._start)
        await self._send(message)

    def _with_nonce(self) -> bytes:
        # Whatever people wrote is escaped in it: each `<script` is the page's own.
        return _SCRIPT.sub(b'<script nonce="%s"' % self._nonce.encode(), self._body)
