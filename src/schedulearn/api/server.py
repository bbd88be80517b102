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
from schedulearn.service.upkeep.certificate import certificate_for
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
    address = _Address(options)
    with Runtime(options) as runtime:
        if address.url:
            runtime.publish(address.pinned, address.for_jobs())
        if "scheduler" in options.roles:
            runtime.start_scheduler(on_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
        if not address.url:
            announce(Started(None, runtime.first_token, runtime.storage(), warnings=runtime.warnings))
            _wait_for_signal()
            return
        gateway, url = runtime.gateway(), address.url
        link = f"{url}/login?once={gateway.logins.issue_for(gateway.accounts.an_admin())['code']}" if page else None
        warnings = [*runtime.warnings, *address.warnings]
        announce(Started(url, runtime.first_token, runtime.storage(), link, address.pin, warnings))
        app = create_app(gateway, limits.total)
        whole = beside(app, page(address.pinned, gateway.page_key)) if page else app
        address.run(guarded_names(whole, options), limits, gateway.close)


def serve_page(page: ASGIApp, options: Options, announce: Callable[[str, str, Sequence[str]], None]) -> None:
    """The page alone, for a service that runs elsewhere. Tells its address, its certificate's fingerprint, warnings."""
    address = _Address(options)
    announce(address.url, address.pin, address.warnings)
    address.run(page, limits_for_this_process(), lambda: None)


class _Address:
    """Where this process listens; nowhere, if it has neither API nor page."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shown = certificate_for(options) if options.listens else None
        self._tls = self._shown.context() if self._shown else None
        self._listening = _listen(options) if options.listens else None
        self.pin = self._shown.pin if self._shown else ""
        self.warnings = self._shown.warnings() if self._shown else []

    @property
    def url(self) -> str:
        """For this machine: one that listens everywhere is reached over loopback."""
        if self._listening is None:
            return ""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._options.host, self._options.host)
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._listening.getsockname()[1]}"

    @property
    def pinned(self) -> str:
        return with_pin(self.url, self.pin)

    def for_jobs(self) -> str:
        """What was said, "" if nothing. No authority vouches for a certificate that we made: jobs have to know it."""
        url = self._options.url
        return with_pin(url, self.pin) if self._options.tls and url.startswith("https:") and "#" not in url else url

    def run(self, app: ASGIApp, limits: Limits, on_exit: Callable[[], None]) -> None:
        assert self._listening, "there is something to serve"
        make_server(app, limits, on_exit, self._tls, self._options.log_level).run(sockets=[self._listening])
        if told_to_end():  # before the server took signals over
            raise KeyboardInterrupt


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
