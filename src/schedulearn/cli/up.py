"""`up`: start the service."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated

import typer

from schedulearn import __version__
from schedulearn.cli.common.data import (
    PAGE,
    Data,
    data_folder,
    forget_service,
    refuse_another_page,
    server_errors,
    write_service,
)
from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.next import link_words, next_commands
from schedulearn.cli.common.out import next_steps, say
from schedulearn.cli.common.verb import verb_app
from schedulearn.cli.view.nodes import storage_words
from schedulearn.pinned import address_of, with_pin, without_pin

if TYPE_CHECKING:
    from schedulearn.api.server import Started
    from schedulearn.dashboard.lazy import LazyPage
    from schedulearn.service.common.config import Options

app = verb_app()
PARTS = ("api", "scheduler", PAGE)
EXECUTORS = ("process", "docker", "both")
LEVELS = ("debug", "info", "warning", "error")
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@app.command()
def up(
    data: Data = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen here; 0.0.0.0 lets other machines in, which takes TLS.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Listen on this port; 0 takes any free one.")
    ] = 7311,
    only: Annotated[
        str | None, typer.Option(metavar="|".join(PARTS), help="Start this part alone; the API has the page with it.")
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the web page, too.")] = True,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Start it in the background, return when it answers; `down` stops it."),
    ] = False,
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="A PostgreSQL database; SQLite in the data folder if left out.")
    ] = None,
    accept_data: Annotated[
        bool,
        typer.Option(help="Go on with another data folder than the database was used with before, which is gone."),
    ] = False,
    keep_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="Keep the files of finished jobs so long.")
    ] = 30.0,
    keep_size: Annotated[str, typer.Option(metavar="SIZE", help="Keep so much of them at the most.")] = "50GB",
    keep_audit: Annotated[str, typer.Option(metavar="TIME", help="Keep the audit log so long.")] = "400d",
    max_jobs_per_user: Annotated[
        int, typer.Option(min=0, metavar="N", help="Unfinished jobs that one user may have; 0: any number.")
    ] = 50_000,
    max_snapshots_per_user: Annotated[
        str, typer.Option(metavar="SIZE", help="Uploaded folders that are kept of one user; 0: any size.")
    ] = "20GB",
    max_disk_per_user: Annotated[
        str, typer.Option(metavar="SIZE", help="Files of one user's jobs, above which no more are taken; 0: any size.")
    ] = "200GB",
    max_disk_per_job: Annotated[
        str, typer.Option(metavar="SIZE", help="Files of one job, above which it is stopped; 0: any size.")
    ] = "0",
    log_level: Annotated[str, typer.Option(metavar="|".join(LEVELS), help="How much the service tells.")] = "info",
    executor: Annotated[
        str, typer.Option(metavar="|".join(EXECUTORS), help="How this machine runs jobs: as processes, in containers.")
    ] = "process",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="For jobs that name none, on servers that have no other.")
    ] = "",
    shared_checkpoints: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder that is the same on every server; else files are copied."),
    ] = None,
    allow_mounts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR[:rw]",
            help="Containers may mount it and what is in it; with :rw it alone, also to write; may be repeated.",
        ),
    ] = None,
    networks: Annotated[
        str, typer.Option(metavar="RANGE", help="Where the networks of containers take their addresses.")
    ] = "198.18.0.0/15",
    host_network: Annotated[
        bool,
        typer.Option("--host-network/--no-host-network", help="Let containers that must share their server's network."),
    ] = True,
    setup_time: Annotated[str, typer.Option(metavar="TIME", help="End the setup lines of a job after so long.")] = "1h",
    lost_after: Annotated[
        str, typer.Option(metavar="TIME", help="Give the jobs of a silent server up after so long.")
    ] = "5m",
    regrow_after: Annotated[
        str,
        typer.Option(metavar="TIME", help="A job that lost a worker may grow again after so long; doubled each time."),
    ] = "30s",
    mail_command: Annotated[
        str, typer.Option(metavar="COMMAND", help="Sends an e-mail that is on its standard input: 'sendmail -t'.")
    ] = "",
    allow_notify: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Whom jobs may tell: https://…, @example.org, public; may be repeated."),
    ] = None,
    uids: Annotated[
        str, typer.Option(metavar="FIRST-LAST", help="As root: each user's jobs run as a uid of its own out of these.")
    ] = "70000-99999",
    root_jobs: Annotated[
        bool, typer.Option("--root-jobs", help="As root: run jobs as root, too. For nobody but yourself.")
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The API's address for jobs, where that of --host is not for them; for the page alone, where it is.",
        ),
    ] = "",
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS, with a certificate that is made here; its fingerprint is shown.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Speak TLS, with this certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of that certificate.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in without TLS: who is in between reads tokens.")
    ] = False,
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
    if only not in (None, *PARTS):
        raise Failure(f"there is no part {only!r}", field="--only", allowed=", ".join(PARTS))
    if log_level not in LEVELS:
        raise Failure(f"there is no log level {log_level!r}", field="--log-level", allowed=", ".join(LEVELS))
    if executor not in EXECUTORS:
        raise Failure(f"there is no executor {executor!r}", field="--executor", allowed=", ".join(EXECUTORS))
    # The server's side is imported only here: no other verb pays for it.
    from schedulearn.service.common.config import ALL_ROLES, Caps, Options

    with server_errors():
        options = Options(
            data=data_folder(data),
            host=host,
            port=port,
            roles=frozenset({only}) if only else ALL_ROLES,
            database=database,
            accept_data=accept_data,
            keep_seconds=keep_days * 86400.0,
            keep_bytes=parse_size(keep_size),
            keep_audit=parse_time(keep_audit, "--keep-audit"),
            caps=Caps(
                jobs=max_jobs_per_user,
                snapshots=parse_size(max_snapshots_per_user, "--max-snapshots-per-user"),
                disk=parse_size(max_disk_per_user, "--max-disk-per-user"),
                job_disk=parse_size(max_disk_per_job, "--max-disk-per-job"),
            ),
            log_level=log_level,
            executor=executor,
            image=image,
            shared_checkpoints=_absolute(shared_checkpoints),
            allow_mounts=tuple(allow_mounts or ()),
            networks=networks,
            host_network=host_network,
            setup_time=parse_time(setup_time, "--setup-time"),
            lost_after=parse_time(lost_after, "--lost-after"),
            regrow_after=parse_time(regrow_after, "--regrow-after"),
            mail_command=mail_command,
            allow_notify=tuple(allow_notify or ()),
            url=_checked_url(url),
            page=page,
            tls=tls,
            tls_cert=_there(tls_cert),
            tls_key=_there(tls_key),
            insecure=insecure,
            uids=parse_uids(uids),
            root_jobs=root_jobs,
        )
    if only == PAGE and not options.url:
        raise Failure("the page alone must know its service", field="--url", allowed="such as http://lab:7311")
    if only == PAGE:
        refuse_another_page(options.data)
    if detach:
        from schedulearn.cli.common.detach import start_detached

        return start_detached(options.data, arguments(options), only)
    if only == PAGE:
        return page_alone(options)
    from schedulearn.api.http.ending import end_on_signals

    end_on_signals()
    try:
        with server_errors():
            from schedulearn.api.server import serve
            from schedulearn.dashboard import page as page_of

            def page_there(url: str, key: str) -> "LazyPage":
                return page_of(url, options.folder.page_logins("service"), key)

            serve(options, lambda started: announce(options, started), page_there if options.page else None)
    except KeyboardInterrupt:
        say("The service has stopped. Running jobs go on.")
    finally:
        forget_service(options.data)
    return Code.DONE


def page_alone(options: "Options") -> int:
    """The page in a process of its own. It needs no data folder: it asks the service for everything."""
    from schedulearn.api.http.ending import end_on_signals

    end_on_signals()
    try:
        with server_errors(), suppress(KeyboardInterrupt):
            from schedulearn.api.server import serve_page
            from schedulearn.dashboard import page as page_of

            made = page_of(options.url, options.folder.page_logins(PAGE))
            serve_page(made, options, lambda *told: _announce_page(options, *told))
    finally:
        forget_service(options.data)
    return Code.DONE


def _announce_page(options: "Options", url: str, pin: str, warnings: Sequence[str]) -> None:
    if options.data.is_dir():  # for `down`
        write_service(options.data, with_pin(url, pin), [PAGE])
    say(f"The page of {without_pin(options.url)} is up, pid {os.getpid()}.", "bold green")
    say(f"page: {url}")
    if pin:
        say(f"fingerprint: sha256={pin}")
    for warning in warnings:
        say(f"Warning: {warning}", "yellow")
    next_steps({"a link that logs you in": link_words(url)})
    sys.stdout.flush()


def announce(options: "Options", started: "Started") -> None:
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
        say("  (logs an administrator in, once; another link: schedulearn tokens link)", "dim")
    if started.token:
        say(f"token: {started.token}")
        say("  (the administrator's, shown this once; the command line on this machine already has it)", "dim")
    say(f"data: {options.data}, {storage_words(asdict(started.storage))}")
    for warning in started.warnings:
        say(f"Warning: {warning}", "yellow")
    next_steps(next_commands(options.data))
    sys.stdout.flush()  # it may be a file that somebody waits for


def arguments(options: "Options") -> list[str]:
    """The command line that gives these options."""
    words = ["--data", str(options.data), "--host", options.host, "--port", str(options.port)]
    words += ["--keep-days", repr(options.keep_seconds / 86400.0), "--keep-size", str(options.keep_bytes)]
    words += ["--keep-audit", repr(options.keep_audit), "--max-jobs-per-user", str(options.caps.jobs)]
    words += ["--max-snapshots-per-user", str(options.caps.snapshots), "--max-disk-per-user", str(options.caps.disk)]
    words += ["--max-disk-per-job", str(options.caps.job_disk)]
    words += ["--log-level", options.log_level, "--executor", options.executor]
    words += ["--lost-after", repr(options.lost_after), "--regrow-after", repr(options.regrow_after)]
    words += ["--image", options.image] if options.image else []
    words += ["--shared-checkpoints", str(options.shared_checkpoints)] if options.shared_checkpoints else []
    for path in options.allow_mounts:
        words += ["--allow-mounts", path]
    words += [] if options.host_network else ["--no-host-network"]
    words += ["--networks", options.networks, "--setup-time", repr(options.setup_time)]
    words += ["--mail-command", options.mail_command] if options.mail_command else []
    for rule in options.allow_notify:
        words += ["--allow-notify", rule]
    words += ["--url", options.url] if options.url else []
    words += [] if options.page else ["--no-page"]
    words += ["--tls"] if options.tls else []
    words += ["--tls-cert", str(options.tls_cert), "--tls-key", str(options.tls_key)] if options.tls_cert else []
    words += ["--insecure"] if options.insecure else []
    words += ["--uids", "{}-{}".format(*options.uids), *(["--root-jobs"] if options.root_jobs else [])]
    if options.database:
        words += ["--database", options.database, *(["--accept-data"] if options.accept_data else [])]
    if len(options.roles) == 1:
        words += ["--only", *options.roles]
    return words


def parse_time(text: str, field: str) -> float:
    """Seconds from `5m`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip())
    if not match:
        raise Failure(f"{text!r} is not a time", field=field, allowed="a time such as 90s, 5m, 1h or 30d")
    return float(match[1]) * _TIMES[match[2]]


def parse_uids(text: str) -> tuple[int, int]:
    """From `70000-99999`."""
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", text.strip())
    if not match:
        raise Failure(f"{text!r} is no range of uids", field="--uids", allowed="FIRST-LAST, such as 70000-99999")
    return int(match[1]), int(match[2])


def _checked_url(text: str) -> str:
    try:
        pin = address_of(text).pin if text else ""
    except ValueError as problem:
        allowed = "an address such as http://lab:7311, or https://lab:7311#sha256=FINGERPRINT"
        raise Failure(str(problem), field="--url", allowed=allowed) from None
    return with_pin(text, pin)


def _there(path: Path | None) -> Path | None:
    """The same file from any folder: what runs in the background may be in another."""
    return path.expanduser().absolute() if path else None


def _absolute(path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise Failure(
            f"{path} is not absolute", field="--shared-checkpoints", allowed="a path such as /srv/checkpoints"
        )
    return path


def parse_size(text: str, field: str = "--keep-size") -> int:
    """Bytes from `50GB`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", text.strip(), re.IGNORECASE)
    if not match:
        raise Failure(f"{text!r} is not a size", field=field, allowed="a size such as 500MB, 50GB or 1TB")
    factor = _SIZES[match[2].upper()]
    if match[3]:
        factor = 1024 ** list(_SIZES).index(match[2].upper())
    return round(float(match[1]) * factor)
