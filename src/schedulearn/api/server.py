"""`schedulearn up`: the service in the foreground, until SIGTERM or Ctrl-C."""

import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.app import create_app
from schedulearn.domain.errors import SchedulearnError
from schedulearn.service.config import Options
from schedulearn.service.housekeeping import Storage
from schedulearn.service.roles import refuse_if_taken
from schedulearn.service.runtime import Runtime

_GRACE_FOR_STREAMS = 2  # seconds that open streams get when the service stops


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to say once the service runs."""

    url: str | None  # None: this process has no API
    token: str | None  # the administrator's, at the very first start only
    storage: Storage
    page: str | None = None  # the address of the page, with a code that logs an administrator in, once


def serve(options: Options, announce: Callable[[Started], None], page: Callable[[str], ASGIApp] | None = None) -> None:
    """Run the service, with the page for its address if there is one. Running jobs go on when it stops."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("schedulearn").setLevel(options.log_level.upper())
    refuse_if_taken(options)  # before anything else, or the port would be blamed
    listening = _listen(options) if "api" in options.roles else None
    with Runtime(options) as runtime:
        url = _url(options.host, listening) if listening else None
        if url:
            runtime.publish(url)
        if "scheduler" in options.roles:
            runtime.start_scheduler(on_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
        if listening and url:
            gateway = runtime.gateway()
            link = f"{url}/login?once={gateway.logins.issue_for(gateway.people.an_admin()).code}" if page else None
            announce(Started(url, runtime.first_token, runtime.storage(), link))
            app = create_app(gateway)
            _run(beside(app, page(url)) if page else app, listening, options.log_level, gateway.close)
        else:
            announce(Started(None, runtime.first_token, runtime.storage()))
            _wait_for_signal()


def serve_page(page: ASGIApp, options: Options, announce: Callable[[str], None]) -> None:
    """The page alone, for a service that runs elsewhere."""
    listening = _listen(options)
    announce(_url(options.host, listening))
    _run(page, listening, options.log_level, lambda: None)


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


def _url(host: str, listening: socket.socket) -> str:
    """The address for this machine: one that listens everywhere is reached over loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _run(app: ASGIApp, listening: socket.socket, log_level: str, on_exit: Callable[[], None]) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning" if log_level == "info" else log_level,
        access_log=log_level == "debug",
        timeout_graceful_shutdown=_GRACE_FOR_STREAMS,
    )
    _Server(config, on_exit).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells open streams to end as soon as a signal arrives, so that stopping does not wait for their readers."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: object) -> None:
        self._on_exit()
        super().handle_exit(sig, frame)  # type: ignore[arg-type] # a frame, as signal handlers get it


def _wait_for_signal() -> None:
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    done.wait()
