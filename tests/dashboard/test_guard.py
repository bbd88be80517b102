"""What the page lets through: only people who are logged in, and only what their own page sends."""

import asyncio
import html
import http.client
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import randrange
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from schedulearn.dashboard.access.session import Session, Source
from schedulearn.dashboard.common.unseen import MOST
from support.service import Service

from .conftest import link

pytestmark = pytest.mark.slow

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


def ask(
    service: Service, path: str, method: str = "GET", body: str = "", address: str = "127.0.0.1", **headers: str
) -> http.client.HTTPResponse:
    """`address` is that of the browser."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60, source_address=(address, 0))
    if body:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.text = answer.read().decode("utf-8", "replace")  # type: ignore[attr-defined]
    connection.close()
    return answer


def follow(service: Service, link: str) -> http.client.HTTPResponse:
    """What pressing the button of a one-time link does."""
    code = link.partition("once=")[2]
    return ask(service, "/login", "POST", f"once={code}", Origin=service.url)


def log_in(service: Service, user: str | None = None) -> str:
    """The cookie, as a browser sends it back."""
    answer = follow(service, link(service, user))
    assert (answer.status, answer.getheader("Location")) == (303, "/")
    return str(answer.getheader("Set-Cookie")).partition(";")[0]


def test_the_cookie_is_no_token(service: Service) -> None:
    """Browsers give it to every port of the host: to the page of any job there, too."""
    name, _, value = log_in(service).partition("=")
    for offered in (value, f"{name}={value}", value.partition(".")[2] or value):
        assert ask(service, "/api/v1/whoami", Authorization=f"Bearer {offered}").status == 401
    assert ask(service, "/api/v1/whoami", Cookie=f"{name}={value}").status == 401
    kept = (service.data / "service-logins.json").read_text()
    assert value not in kept
    assert "sl_" not in kept
    assert (service.data / "service-logins.json").stat().st_mode & 0o777 == 0o600


def test_the_audit_log_has_the_address_of_the_browser(service: Service) -> None:
    there = f"127.1.{randrange(256)}.{randrange(1, 255)}"  # the same refusal is written down once an hour
    code = link(service).partition("once=")[2]
    answer = ask(service, "/login", "POST", f"once={code}", there, Origin=service.url)
    cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
    ask(service, "/login", "POST", "token=sl_guess", there, Origin=service.url, X_Forwarded_For="10.0.0.7")
    forged = {"X_Schedulearn_Page": "x 10.0.0.7", "X_Forwarded_For": "10.0.0.7"}
    ask(service, "/logout", "POST", "", there, Origin=service.url, Cookie=cookie, **forged)
    with service.client() as admin:
        told = [(line["action"], line["origin"]) for line in admin.audit(limit=3)]
    assert told == [
        ("token.revoke", f"{there} (page, forwarded)"),
        ("login.issue", f"{there} (page, forwarded)"),
        ("login.redeem", f"{there} (page)"),
    ]


def test_a_person_who_moves_on_asks_from_there() -> None:
    """Connections that are kept from before are not used again."""
    asked = []

    def connect(_: str, source: Source) -> Any:
        return SimpleNamespace(source=source, close=lambda: asked.append(("closed", source.address)))

    async def visit_twice() -> None:
        session = Session(connect, "token", cast(Any, {}), Source("10.0.0.1"))
        for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
            session.move(Source(address))
            await session.ask(lambda client: asked.append(("asked", cast(Any, client).source.address)))

    asyncio.run(visit_twice())
    assert asked == [("asked", "10.0.0.1"), ("asked", "10.0.0.1"), ("closed", "10.0.0.1"), ("asked", "10.0.0.2")]


def test_a_log_in_outlives_the_service(tmp_path: Any) -> None:
    with Service(tmp_path / "data") as service:
        cookie = log_in(service)
        service.restart()
        assert ask(service, "/", Cookie=cookie).status == 200
        assert ask(service, "/logout", "POST", "", Cookie=cookie, Origin=service.url).status == 303
        service.restart()
        assert ask(service, "/", Cookie=cookie).status == 303


def test_over_tls_the_cookie_is_for_this_host_and_tls_alone(service: Service) -> None:
    code, ours = link(service).partition("once=")[2], service.url.replace("http:", "https:")
    answer = ask(service, "/login", "POST", f"once={code}", Origin=service.url, X_Forwarded_Proto="https")
    assert answer.status == 403, "a page that came without TLS may be anybody's"
    answer = ask(service, "/login", "POST", f"once={code}", Origin=ours, X_Forwarded_Proto="https")
    cookie = str(answer.getheader("Set-Cookie"))
    assert cookie.startswith(f"__Host-schedulearn-{service.port}=")
    assert "Secure" in cookie
    assert "Path=/;" in f"{cookie};"
    assert "Domain" not in cookie
    kept = cookie.partition(";")[0]
    assert ask(service, "/", Cookie=kept, X_Forwarded_Proto="https").status == 200
    assert ask(service, "/", Cookie=kept.removeprefix("__Host-"), X_Forwarded_Proto="https").status == 303


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7311", "127.0.0.1.evil.example", "[::2]", "a:\xe9", "["]
)
def test_a_name_that_only_points_here_gets_no_answer(service: Service, host: str) -> None:
    for path in ("/login", "/api/v1/health", "/metrics"):
        assert ask(service, path, Host=host).status == 421


def test_the_link_is_good_once_and_leaves_no_secret_in_the_address(service: Service) -> None:
    shown = link(service)
    answer = follow(service, shown)
    cookie = str(answer.getheader("Set-Cookie"))
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=5184000" in cookie
    assert (answer.status, answer.getheader("Location")) == (303, "/")
    again: Any = follow(service, shown)
    assert again.status == 401
    assert again.getheader("Set-Cookie") is None
    assert "was used before" in again.text


def test_who_only_looks_at_a_link_does_not_use_it_up(service: Service) -> None:
    shown = link(service)
    for method in ("HEAD", "GET", "GET"):  # such as a chat program that shows what is behind it
        assert ask(service, shown.removeprefix(service.url), method).getheader("Set-Cookie") is None
    assert follow(service, shown).status == 303


def test_of_two_who_use_a_link_at_once_one_gets_in(service: Service) -> None:
    shown = link(service)
    with ThreadPoolExecutor(8) as many:
        answers = [many.submit(follow, service, shown) for _ in range(8)]
    assert sorted(answer.result().status for answer in answers) == [303] + [401] * 7


def test_the_link_that_is_printed_logs_an_administrator_in(service: Service) -> None:
    shown = service.output().partition("page: ")[2].split()[0]
    cookie = str(follow(service, shown).getheader("Set-Cookie")).partition(";")[0]
    page: Any = ask(service, "/", Cookie=cookie)
    assert page.status == 200
    assert "logged in as admin" in page.text


@pytest.mark.parametrize(
    "path",
    [
        "/", "/jobs", "/jobs/1?x=1", "/nowhere", "/openapi.json", "/docs", "/loginx", "/login/x", "/favicon.icon",
        "/_nicegui/x", "/_nicegui/client/x/upload/1", "/results/x/report", SOCKET.replace("websocket", "polling"),
    ],
)  # fmt: skip
def test_without_a_session_there_is_only_the_log_in(service: Service, path: str) -> None:
    for cookie in ("", f"schedulearn-{service.port}=7.sl_wrong", f"schedulearn-{service.port}={'9' * 5000}.x",
                   f'schedulearn-{service.port}="7.x\\012y"', "x=;;=", "\xff"):  # fmt: skip
        answer = ask(service, path, Cookie=cookie)
        assert answer.status == 303
        assert str(answer.getheader("Location")).startswith("/login")


def test_a_wrong_token_is_refused_and_a_right_one_goes_where_it_was_wanted(service: Service) -> None:
    wrong = ask(service, "/login", "POST", "token=wrong&next=/jobs", Origin=service.url)
    assert (wrong.status, wrong.getheader("Set-Cookie")) == (401, None)
    right: Any = ask(service, "/login", "POST", f"token={service.token}&next=/jobs%3Fpage%3D2", Origin=service.url)
    assert service.token not in str(right.getheader("Set-Cookie")), "the browser gets a token of its own"
    assert (right.status, right.getheader("Location")) == (303, "/jobs?page=2")


@pytest.mark.parametrize("token", ["", "%C3%A9", "a%0D%0Ax", "%00", "a" * 20_000])
def test_a_text_that_is_no_token_is_refused(service: Service, token: str) -> None:
    assert ask(service, "/login", "POST", f"token={token}&next=/", Origin=service.url).status == 401


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/\n//evil",
        "javascript:alert(1)",
    ],
)
def test_nobody_is_led_elsewhere(service: Service, target: str) -> None:
    body = f"token={service.token}&next={quote(target)}"
    answer = ask(service, "/login", "POST", body, Origin=service.url)
    assert (answer.status, answer.getheader("Location")) == (303, "/")


def test_where_somebody_wanted_to_go_survives_the_log_in(service: Service) -> None:
    wanted = "/jobs?search=%C3%BC%26x&page=2"
    asked = str(ask(service, wanted).getheader("Location"))
    form: Any = ask(service, asked)
    hidden = html.unescape(form.text.partition('name="next" value="')[2].partition('"')[0])
    body = f"token={service.token}&next={quote(hidden)}"
    assert ask(service, "/login", "POST", body, Origin=service.url).getheader("Location") == wanted


def test_a_body_without_an_end_is_not_taken_in(service: Service) -> None:
    """From anybody: one who is not logged in must not be able to fill the memory."""
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nOrigin: {service.url}\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(chunk)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("host", ["localhost:b;c", "127.0.0.1:1,2", "[::1]:7", "a.localhost", "localhost:\xe9"])
def test_a_strange_name_of_the_host_does_no_harm(service: Service, host: str) -> None:
    assert ask(service, "/login", Host=host).status == 200
    code = link(service).partition("once=")[2]
    answer = ask(service, "/login", "POST", f"once={code}", Host=host, Origin=f"http://{host}")
    assert str(answer.getheader("Set-Cookie")).startswith(("schedulearn-page=", "schedulearn-7="))


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
def test_what_another_page_sends_is_refused(service: Service, origin: str | None) -> None:
    cookie = log_in(service)
    headers = {"Cookie": cookie} | ({"Origin": origin} if origin else {})
    for path in ("/login", "/logout", "/jobs", SOCKET.replace("websocket", "polling")):
        assert ask(service, path, "POST", "a=b", **headers).status == 403
    if origin:  # to read what the library would let anybody read
        assert ask(service, SOCKET.replace("websocket", "polling"), **headers).status == 403
    assert ask(service, "/", Cookie=cookie).status == 200, "it is still logged in"
    with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{service.port}{SOCKET}", additional_headers=headers):
        pass


def test_a_socket_needs_a_session(service: Service) -> None:
    address = f"ws://127.0.0.1:{service.port}{SOCKET}"
    with pytest.raises(InvalidStatus), connect(address, additional_headers={"Origin": service.url}):
        pass
    with connect(address, additional_headers={"Origin": service.url, "Cookie": log_in(service)}) as socket:
        assert str(socket.recv(60)).startswith("0")


def test_of_pages_whose_browser_never_comes_back_only_the_newest_are_kept(service: Service) -> None:
    cookie = log_in(service)
    seen, lost, kept = (number_of(ask(service, "/nowhere", Cookie=cookie)) for _ in range(3))
    with page_socket(service, cookie, seen) as open_all_the_time:
        assert is_known(open_all_the_time)
        for _ in range(MOST - 1):
            ask(service, "/nowhere", Cookie=cookie)
        for number, known in ((seen, True), (lost, False), (kept, True)):
            with page_socket(service, cookie, number) as socket:
                assert is_known(socket) == known


def is_known(socket: ClientConnection) -> bool:
    """Whether the service still has this page; if not, its script loads it again."""
    answer = str(socket.recv(60))
    assert answer[:2] in ("40", "44")
    return answer.startswith("40")


def number_of(answer: Any) -> str:
    """What a page calls itself when it opens its socket."""
    found = re.search(r"client_id[^0-9a-f]+([0-9a-f-]{36})", answer.text)
    assert found
    return found[1]


@contextmanager
def page_socket(service: Service, cookie: str, number: str) -> Iterator[ClientConnection]:
    """The socket of a page, as its script opens it; what comes next says whether the page is known."""
    who = f"client_id={number}&implicit_handshake=true&tab_id={number}&document_id={number}&next_message_id=0"
    address = f"ws://127.0.0.1:{service.port}{SOCKET}&{who}"
    with connect(address, additional_headers={"Origin": service.url, "Cookie": cookie}) as socket:
        assert str(socket.recv(60)).startswith("0")
        socket.send("40")
        yield socket


def test_a_cookie_is_no_way_into_the_api(service: Service) -> None:
    cookie = log_in(service)
    assert ask(service, "/api/v1/whoami", Cookie=cookie).status == 401
    assert ask(service, "/metrics", Cookie=cookie).status == 401
    assert ask(service, "/api/v1/nothing", Cookie=cookie).getheader("Content-Type") == "application/problem+json"


def test_every_page_says_what_it_may_load(service: Service) -> None:
    nonces = set()
    for path, cookie in (("/login", ""), ("/", log_in(service)), ("/nowhere", log_in(service))):
        answer: Any = ask(service, path, Cookie=cookie)
        policy = str(answer.getheader("Content-Security-Policy"))
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        script = policy.partition("script-src ")[2].partition(";")[0]
        assert "unsafe-inline" not in script
        nonce = script.partition("'nonce-")[2].partition("'")[0]
        assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}"') > 0
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert "no-store" in str(answer.getheader("Cache-Control"))
        nonces.add(nonce)
    assert len(nonces) == 3


def test_markup_in_a_name_gets_no_nonce(service: Service) -> None:
    name = "</script><script>alert(1)</script>`${alert(2)}"
    with service.client() as client:
        job = client.submit({"command": "true", "name": name, "resources": {"cpus": 0.1}, "workdir": None})["id"]
    page: Any = ask(service, f"/jobs/{job}", Cookie=log_in(service))
    assert "alert(1)" in page.text
    assert "<script>alert" not in page.text
    assert "script nonce" not in page.text.partition("alert(1)")[0][-60:]
    assert "${alert" not in page.text


def test_what_is_not_a_page_is_protected_too(service: Service) -> None:
    cookie = log_in(service)
    for path, sent in (("/static/nothing", {}), ("/_nicegui/nothing", {"Cookie": cookie}), ("/jobs", {"Origin": "x"})):
        answer = ask(service, path, **sent)
        assert answer.status in (403, 404)
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("X-Frame-Options") == "DENY"


def test_each_page_lets_the_browser_keep_the_cookie_for_longer(service: Service) -> None:
    cookie = log_in(service)
    assert str(ask(service, "/jobs", Cookie=cookie).getheader("Set-Cookie")).startswith(f"{cookie}; HttpOnly; Max-Age=")
    for path in ("/static/page.css", "/login"):
        assert ask(service, path, Cookie=cookie).getheader("Set-Cookie") is None


def test_a_session_ends_with_its_token(service: Service) -> None:
    cookie = log_in(service)
    assert ask(service, "/logout", "POST", "", Cookie=cookie, Origin=service.url).getheader("Location") == "/login"
    assert ask(service, "/", Cookie=cookie).status == 303


def test_without_the_page_there_is_only_the_api(tmp_path: Any) -> None:
    with Service(tmp_path / "data", "--no-page") as service:
        assert "page:" not in service.output()
        assert ask(service, "/").status == 404
        assert ask(service, "/api/v1/health").status == 200
