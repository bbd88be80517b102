"""The options of `up`, and what they become: options of the service, or the command line of a detached one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from schedulearn.cli.common.data import PAGE, data_folder, server_errors
from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.verb import option
from schedulearn.pinned import address_of, with_pin

if TYPE_CHECKING:
    from schedulearn.service.common.config import Options

Text = str
File = Path | None
Many = list[str] | None
Part = Literal["api", "scheduler", "dashboard"]
Level = Literal["debug", "info", "warning", "error"]
Executor = Literal["process", "docker", "both"]
_TIMES = ("keep_audit", "setup_time", "lost_after", "regrow_after")
_AS_THEY_ARE = (
    "host", "port", "database", "accept_data", "log_level", "executor", "image", "networks", "host_network",
    "mail_command", "page", "tls", "insecure", "root_jobs",
)  # fmt: skip


def up_options(
    host: Annotated[Text, option("ADDRESS", "Address to listen on; 0.0.0.0 needs TLS.")] = "127.0.0.1",
    port: Annotated[int, option("N", "Port to listen on; 0 takes any free one.", min=0, max=65535)] = 7311,
    only: Annotated[
        Part | None, option("api|scheduler|dashboard", "Start only this part; api includes the page.")
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the web page.")] = True,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start in the background and return when ready; `down` stops it.")
    ] = False,
    database: Annotated[Text | None, option("URL", "PostgreSQL database. [default: SQLite in the data folder]")] = None,
    accept_data: Annotated[
        bool, typer.Option(help="Use a new data folder although the database belongs to another, which is lost.")
    ] = False,
    keep_days: Annotated[float, option("DAYS", "Keep the files of finished jobs this long.", min=0)] = 30.0,
    keep_size: Annotated[Text, option("SIZE", "Keep at most this much of them.")] = "50GB",
    keep_audit: Annotated[Text, option("TIME", "Keep the audit log this long.")] = "400d",
    max_jobs_per_user: Annotated[int, option("N", "Unfinished jobs per user; 0: no limit.", min=0)] = 50_000,
    max_snapshots_per_user: Annotated[Text, option("SIZE", "Stored uploads per user; 0: no limit.")] = "20GB",
    max_disk_per_user: Annotated[
        Text, option("SIZE", "Job files per user, above which new jobs are refused; 0: no limit.")
    ] = "200GB",
    max_disk_per_job: Annotated[
        Text, option("SIZE", "Files per job, above which the job is stopped; 0: no limit.")
    ] = "0",
    log_level: Annotated[Level, option("debug|info|warning|error", "How much the service logs.")] = "info",
    executor: Annotated[
        Executor, option("process|docker|both", "How this machine runs jobs: as processes, in containers.")
    ] = "process",
    image: Annotated[Text, option("IMAGE", "Default image of jobs and servers that name none.")] = "",
    shared_checkpoints: Annotated[
        File, option("DIR", "A folder shared by all servers; without it, checkpoints are copied.")
    ] = None,
    allow_mounts: Annotated[
        Many,
        option("DIR[:rw]", "Containers may mount DIR and its subfolders; with :rw only DIR, writable. Repeatable."),
    ] = None,
    networks: Annotated[Text, option("RANGE", "Address range of container networks.")] = "198.18.0.0/15",
    host_network: Annotated[
        bool, typer.Option("--host-network/--no-host-network", help="Let containers that need it use the host network.")
    ] = True,
    setup_time: Annotated[Text, option("TIME", "Time limit for the setup lines of a job.")] = "1h",
    lost_after: Annotated[Text, option("TIME", "Treat jobs on an unreachable server as lost after this long.")] = "5m",
    regrow_after: Annotated[
        Text, option("TIME", "Wait before a job that lost a worker may grow again; doubled each time.")
    ] = "30s",
    mail_command: Annotated[Text, option("COMMAND", "Sends the e-mail on its standard input: 'sendmail -t'.")] = "",
    allow_notify: Annotated[
        Many, option("RULE", "Addresses that jobs may notify: https://…, @example.org, public. Repeatable.")
    ] = None,
    uids: Annotated[
        Text, option("FIRST-LAST", "As root: each user's jobs run under a uid of their own from this range.")
    ] = "70000-99999",
    root_jobs: Annotated[
        bool, typer.Option("--root-jobs", help="As root: run jobs as root, too. Only if you are the only user.")
    ] = False,
    url: Annotated[
        Text, option("URL", "The API's address as jobs reach it; for --only dashboard, the service's address.")
    ] = "",
    tls: Annotated[
        bool, typer.Option("--tls", help="Use TLS with a generated certificate; shows its fingerprint.")
    ] = False,
    tls_cert: Annotated[File, option("FILE", "Use TLS with this certificate.")] = None,
    tls_key: Annotated[File, option("FILE", "The key of that certificate.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept other machines without TLS: tokens can be read on the network.")
    ] = False,
) -> None:
    """Only its signature is used."""


def options_of(data: Path | None, given: Mapping[str, Any]) -> "Options":
    """The options of the service, checked. Its code is imported only here: no other verb pays for it."""
    from schedulearn.core.domain.units import parse_duration, parse_size
    from schedulearn.service.common.config import ALL_ROLES, Caps, Options

    def size(name: str) -> int:
        return parse_size(given[name], _written(name))

    with server_errors():
        same: dict[str, Any] = {name: given[name] for name in _AS_THEY_ARE}
        same |= {name: parse_duration(given[name], _written(name)) for name in _TIMES}
        options = Options(
            data=data_folder(data),
            roles=frozenset({given["only"]}) if given["only"] else ALL_ROLES,
            keep_seconds=given["keep_days"] * 86400.0,
            keep_bytes=size("keep_size"),
            caps=Caps(
                jobs=given["max_jobs_per_user"],
                snapshots=size("max_snapshots_per_user"),
                disk=size("max_disk_per_user"),
                job_disk=size("max_disk_per_job"),
            ),
            shared_checkpoints=_absolute(given["shared_checkpoints"]),
            allow_mounts=tuple(given["allow_mounts"] or ()),
            allow_notify=tuple(given["allow_notify"] or ()),
            url=_checked_url(given["url"]),
            tls_cert=_from_anywhere(given["tls_cert"]),
            tls_key=_from_anywhere(given["tls_key"]),
            uids=_uids(given["uids"]),
            **same,
        )
    if given["only"] == PAGE and not options.url:
        raise Failure("the page needs the address of its service", field="--url", allowed="such as http://lab:7311")
    return options


def detached_arguments(ctx: typer.Context) -> list[str]:
    """The same command line, for a process in the background. What was not given is not written."""
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if name == "detach" or source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        if isinstance(value, bool):
            words.append(param.opts[0] if value else param.secondary_opts[0])
        else:
            words += [
                word for one in (value if isinstance(value, list) else [value]) for word in (param.opts[0], str(one))
            ]
    return words


def _written(name: str) -> str:
    return "--" + name.replace("_", "-")


def _uids(text: str) -> tuple[int, int]:
    """From `70000-99999`."""
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", text.strip())
    if not match:
        raise Failure(f"{text!r} is not a range of uids", field="--uids", allowed="FIRST-LAST, such as 70000-99999")
    return int(match[1]), int(match[2])


def _checked_url(text: str) -> str:
    try:
        return with_pin(text, address_of(text).pin if text else "")
    except ValueError as problem:
        allowed = "an address such as http://lab:7311, or https://lab:7311#sha256=FINGERPRINT"
        raise Failure(str(problem), field="--url", allowed=allowed) from None


def _from_anywhere(path: Path | None) -> Path | None:
    """The same file from any folder: what runs in the background may be in another."""
    return path.expanduser().absolute() if path else None


def _absolute(path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        allowed = "a path such as /srv/checkpoints"
        raise Failure(f"{path} is not absolute", field="--shared-checkpoints", allowed=allowed)
    return path
