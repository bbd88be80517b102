"""`schedulearn up`: the service in the foreground, until SIGTERM or Ctrl-C."""

import errno
import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.app import create_app
from schedulearn.api.http.connections import Connections, Limits, limits_for_this_process
from schedulearn.api.http.ending import told_to_end
from schedulearn.api.http.limits import limit_log
from schedulearn.api.http.listener import Server
from schedulearn.api.http.names import guarded_names
from schedulearn.core.domain.errors import SchedulearnError
from schedulearn.pinned import with_pin
from schedulearn.service.common.config import Options
from schedulearn.service.common.roles import refuse_if_taken
from schedulearn.service.runtime import Runtime
from schedulearn.service.upkeep.certificate import Certificate, certificate_for
from schedulearn.service.upkeep.housekeeping import Storage

_GRACE_FOR_STREAMS = 2  # seconds that open streams get when the service stops
_LARGEST_MESSAGE = 2_000_000  # bytes of what a page sends over its socket at once


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to say once the service runs."""

    url: str | None  # None: this process has no API
    token: str | None  # the administrator's, at the very first start only
    storage: Storage
    page: str | None = None  # the address of the page, with a code that logs an administrator in, once
    pin: str = ""  # the fingerprint of the certificate; "": no TLS
    warnings: Sequence[str] = ()  # what whoever starts it must know


def serve(
    options: Options, announce: Callable[[Started], None], page: Callable[[str, str], ASGIApp] | None = None
) -> None:
    """Run the service, with the page for its address, and with its key, if there is one.

    Running jobs go on when it stops.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("schedulearn").setLevel(options.log_level.upper())
    refuse_if_taken(options)  # before anything else, or the port would be blamed
    limits = limits_for_this_process()
    shown = certificate_for(options) if options.listens else None
    tls = shown.context() if shown else None
    listening = _listen(options) if "api" in options.roles else None
    with Runtime(options) as runtime:
        url = _url(options.host, listening, tls) if listening else None
        pin = shown.pin if shown else ""
        if url:
            runtime.publish(with_pin(url, pin), _url_for_jobs(options, shown))
        if "scheduler" in options.roles:
            runtime.start_scheduler(on_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
        if listening and url:
            gateway = runtime.gateway()
            link = f"{url}/login?once={gateway.logins.issue_for(gateway.accounts.an_admin())['code']}" if page else None
            warnings = [*runtime.warnings, *(shown.warnings() if shown else [])]
            announce(Started(url, runtime.first_token, runtime.storage(), link, pin, warnings))
            app = create_app(gateway, limits.total)
            whole = beside(app, page(with_pin(url, pin), gateway.page_key)) if page else app
            _run(guarded_names(whole, options), listening, options.log_level, limits, gateway.close, tls)
        else:
            announce(Started(None, runtime.first_token, runtime.storage(), warnings=runtime.warnings))
            _wait_for_signal()


def serve_page(page: ASGIApp, options: Options, announce: Callable[[str, str, Sequence[str]], None]) -> None:
    """The page alone, for a service that runs elsewhere. Tells its address, its certificate's fingerprint, warnings."""
    shown = certificate_for(options)
    tls = shown.context() if shown else None
    listening = _listen(options)
    announce(_url(options.host, listening, tls), shown.pin if shown else "", shown.warnings() if shown else [])
    _run(page, listening, options.log_level, limits_for_this_process(), lambda: None, tls)


def beside(api: ASGIApp, page: ASGIApp) -> ASGIApp:
    """Both under one address: what is not the API's is the page's."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        chosen = api if path.startswith("/api/") or path == "/metrics" else page
        await chosen(scope, receive, send)

    return both


def _listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # Named outright, because asyncio turns Nagle's algorithm off only then; with it each answer takes 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
    except OSError as error:
        listening.close()
        why = {
            errno.EADDRINUSE: f"port {options.port} is taken: choose another with --port, or --port 0 for any free one",
            errno.EACCES: f"port {options.port} may not be used: choose one above 1023 with --port",
        }.get(error.errno or 0, f"cannot listen on {options.host}:{options.port}: {error.strerror}")
        raise SchedulearnError(why) from error
    return listening


def _url(host: str, listening: socket.socket, tls: ssl.SSLContext | None) -> str:
    """The address for this machine: one that listens everywhere is reached over loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if tls else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _url_for_jobs(options: Options, shown: Certificate | None) -> str:
    """What was said, "" if nothing. No authority vouches for a certificate that was made here: jobs have to know it."""
    if shown and options.tls and options.url.startswith("https:") and "#" not in options.url:
        return with_pin(options.url, shown.pin)
    return options.url


def _run(
    app: ASGIApp,
    listening: socket.socket,
    log_level: str,
    limits: Limits,
    on_exit: Callable[[], None],
    tls: ssl.SSLContext | None,
) -> None:
    make_server(app, limits, on_exit, tls, log_level).run(sockets=[listening])
    if told_to_end():  # before the server took signals over
        raise KeyboardInterrupt


def make_server(
    app: ASGIApp,
    limits: Limits,
    on_exit: Callable[[], None] = lambda: None,
    tls: ssl.SSLContext | None = None,
    log_level: str = "warning",
) -> Server:
    config = uvicorn.Config(
        app,
        log_level="warning" if log_level == "info" else log_level,
        access_log=log_level == "debug",
        timeout_graceful_shutdown=_GRACE_FOR_STREAMS,
        proxy_headers=False,  # any job on this machine could claim another address
        server_header=False,
        ws_max_size=_LARGEST_MESSAGE,
    )
    if log_level != "debug":
        limit_log()
    return Server(config, Connections(limits), on_exit, tls)


def _wait_for_signal() -> None:
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    if not told_to_end():
        done.wait()
