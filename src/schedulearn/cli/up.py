"""`up`: start the service."""

import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from schedulearn import __version__
from schedulearn.cli.common.data import (
    PAGE,
    Data,
    data_folder,
    forget_service,
    link_words,
    next_commands,
    refuse_another_page,
    server_errors,
    write_service,
)
from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, say
from schedulearn.cli.common.verb import option, parameter, verb_app, with_options
from schedulearn.cli.view.nodes import storage_words
from schedulearn.pinned import with_pin, without_pin
from schedulearn.service.common.config import Options, Question, options_of, questions

if TYPE_CHECKING:
    from schedulearn.api.server import Started
    from schedulearn.dashboard.lazy import LazyPage

app = verb_app()
_WRITTEN = {Path | None: Path | None, tuple[str, ...]: list[str] | None}  # kinds that are not written as a text


def up_options() -> list[inspect.Parameter]:
    """Made from the fields of the service's options."""
    return [parameter(one.name, _option(one), one.asked.usual) for one in questions()]


def _option(one: Question) -> Any:
    _, metavar, help, read, _, bounds = one.asked
    if one.kind is bool:
        return Annotated[bool, typer.Option(metavar, help=help)]
    kind = _WRITTEN.get(one.kind, type(one.asked.usual)) if read else one.kind
    return Annotated[kind, option(metavar, help, **bounds)]


@app.command()
@with_options(up_options())
def up(
    ctx: typer.Context,
    data: Data = None,
    only: Annotated[
        Literal["api", "scheduler", "dashboard"] | None,
        option("api|scheduler|dashboard", "Start only this part; api includes the page."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start in the background and return when ready; `down` stops it.")
    ] = False,
    **given: Any,
) -> int:
    """Start the service: API and scheduler in one process, everything in one folder.

    Stopping or restarting it never touches a running job.

    \b
    Examples:
      schedulearn up
      schedulearn up --detach --data /srv/schedulearn --port 7311
      schedulearn up --host 0.0.0.0 --tls
      schedulearn up --only scheduler --data /srv/schedulearn
      schedulearn up --only dashboard --url http://lab:7311 --port 8080 --detach
      schedulearn up --executor docker --image python:3.12 --allow-mounts /data
      schedulearn up --mail-command 'sendmail -t' --allow-notify @example.org
    """
    with server_errors():
        options = options_of(data_folder(data), only, given)
    if only == PAGE:
        if not options.url:
            raise Failure("the page needs the address of its service", field="--url", allowed="such as http://lab:7311")
        refuse_another_page(options.data)
    if detach:
        from schedulearn.cli.common.detach import detached_arguments, start_detached

        return start_detached(options.data, detached_arguments(ctx), only)
    from schedulearn.api.http.ending import end_on_signals

    end_on_signals()
    try:
        with server_errors():
            (_page_alone if only == PAGE else _service)(options)
    except KeyboardInterrupt:
        if only != PAGE:
            say("The service has stopped. Running jobs keep running.")
    finally:
        forget_service(options.data)
    return Code.DONE


def _service(options: Options) -> None:
    """In this process, until it is told to stop."""
    from schedulearn.api.server import serve
    from schedulearn.dashboard import page as page_of

    def page(url: str, key: str) -> "LazyPage":
        return page_of(url, options.folder.page_logins("service"), key)

    serve(options, lambda started: _announce(options, started), page if options.page else None)


def _page_alone(options: Options) -> None:
    """The page in a process of its own. It needs no data folder: it asks the service for everything."""
    from schedulearn.api.server import serve_page
    from schedulearn.dashboard import page as page_of

    page = page_of(options.url, options.folder.page_logins(PAGE))
    serve_page(page, options, lambda *told: _announce_page(options, *told))


def _announce_page(options: Options, url: str, pin: str, warnings: Sequence[str]) -> None:
    if options.data.is_dir():  # for `down`
        write_service(options.data, with_pin(url, pin), [PAGE])
    say(f"The page of {without_pin(options.url)} is up, pid {os.getpid()}.", "bold green")
    say(f"page: {url}")
    if pin:
        say(f"fingerprint: sha256={pin}")
    for warning in warnings:
        say(f"Warning: {warning}", "yellow")
    next_steps({"login link": link_words(url)})
    sys.stdout.flush()


def _announce(options: Options, started: "Started") -> None:
    """What a person who has just started the service wants to know; and word of this process for other verbs."""
    if started.url:
        write_service(options.data, with_pin(started.url, started.pin), sorted(options.roles))
    say(f"Schedulearn {__version__} is up: {' and '.join(sorted(options.roles))}, pid {os.getpid()}.", "bold green")
    if started.url:
        say(f"address: {started.url}")
    if started.url and started.pin:
        say(f"fingerprint: sha256={started.pin}")
        port = started.url.rpartition(":")[2]
        say(f"  (elsewhere: SCHEDULEARN_URL=https://{gethostname()}:{port}#sha256={started.pin})", "dim")
    if started.page:
        say(f"page: {started.page}")
        say("  (a one-time administrator login; another: schedulearn tokens link)", "dim")
    if started.token:
        say(f"token: {started.token}")
        say("  (the administrator's, shown only this once; the command line on this machine already has it)", "dim")
    say(f"data: {options.data}, {storage_words(asdict(started.storage))}")
    for warning in started.warnings:
        say(f"Warning: {warning}", "yellow")
    next_steps(next_commands(options.data))
    sys.stdout.flush()  # it may be a file that is waited for
