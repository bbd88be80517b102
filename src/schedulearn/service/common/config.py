"""How the service is started, and where it keeps things."""

import ipaddress
import re
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.image import check_image
from schedulearn.core.domain.notice import check_rule
from schedulearn.core.domain.units import parse_duration, parse_size
from schedulearn.executors.docker.mounts import check_roots
from schedulearn.executors.docker.networks import check_networks
from schedulearn.executors.docker.rules import NETWORKS
from schedulearn.pinned import address_of, with_pin
from schedulearn.service.common.identity import FIRST, FIRST_PERSON, LARGEST, LAST

ALL_ROLES = frozenset({"api", "scheduler"})
_ANY = "0: no limit"


class Asked(NamedTuple):
    """How `schedulearn up` asks for something."""

    usual: Any  # as it would be written
    metavar: str  # of a switch: how it is spelt
    help: str
    read: Callable[[Any, str], Any] | None  # from what was written, and the option's name for errors; None: as it is
    name: str  # "": that of the field
    bounds: Mapping[str, float]


def _asked(
    usual: Any, metavar: str, help: str, read: Callable[[Any, str], Any] | None = None, name: str = "", **bounds: float
) -> Any:
    """A field that is an option of `up`."""
    default = read(usual, name) if read else usual
    return field(default=default, metadata={"asked": Asked(usual, metavar, help, read, name, bounds)})


def _all_of(given: list[str] | None, _: str) -> tuple[str, ...]:
    return tuple(given or ())


def _file(given: Path | None, _: str) -> Path | None:
    """The same file from any folder: what runs in the background may be in another."""
    return given.expanduser().absolute() if given else None


def _absolute(given: Path | None, option: str) -> Path | None:
    if given is not None and not given.is_absolute():
        raise InvalidSpec(option, f"{given} is not absolute", "a path such as /srv/checkpoints")
    return given


def _uids(given: str, option: str) -> tuple[int, int]:
    """From `70000-99999`."""
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", given.strip())
    if not match:
        raise InvalidSpec(option, f"{given!r} is not a range of uids", "FIRST-LAST, such as 70000-99999")
    return int(match[1]), int(match[2])


def _url(given: str, option: str) -> str:
    try:
        return with_pin(given, address_of(given).pin if given else "")
    except ValueError as problem:
        allowed = "an address such as http://lab:7311, or https://lab:7311#sha256=FINGERPRINT"
        raise InvalidSpec(option, str(problem), allowed) from None


@dataclass(frozen=True, slots=True)
class Caps:
    """What one user, or one job, may have at the most; 0: any amount."""

    jobs: int = _asked(50_000, "N", f"Unfinished jobs per user; {_ANY}.", name="max_jobs_per_user", min=0)
    specs: int = 100 * 1000**2  # characters of their specs: they are kept in memory
    snapshots: int = _asked("20GB", "SIZE", f"Stored uploads per user; {_ANY}.", parse_size, "max_snapshots_per_user")
    disk: int = _asked(
        "200GB",
        "SIZE",
        f"Job files per user, above which new jobs are refused; {_ANY}.",
        parse_size,
        "max_disk_per_user",
    )
    tokens: int = 500  # of the person; those of jobs do not count
    job_disk: int = _asked(
        "0", "SIZE", f"Files per job, above which the job is stopped; {_ANY}.", parse_size, "max_disk_per_job"
    )


@dataclass(frozen=True, slots=True)
class Options:
    """What `schedulearn up` was told. The options of the command line are made from this, in this order."""

    data: Path
    roles: frozenset[str] = ALL_ROLES
    host: str = _asked("127.0.0.1", "ADDRESS", "Address to listen on; 0.0.0.0 needs TLS.")
    port: int = _asked(7311, "N", "Port to listen on; 0 takes any free one.", min=0, max=65535)
    page: bool = _asked(True, "--page/--no-page", "Serve the web page.")
    database: str | None = _asked(None, "URL", "PostgreSQL database. [default: SQLite in the data folder]")
    accept_data: bool = _asked(
        False,
        "--accept-data/--no-accept-data",
        "Use a new data folder although the database belongs to another, which is lost.",
    )
    keep_seconds: float = _asked(
        30.0, "DAYS", "Keep the files of finished jobs this long.", lambda days, _: days * 86400.0, "keep_days", min=0
    )
    keep_bytes: int = _asked("50GB", "SIZE", "Keep at most this much of them.", parse_size, "keep_size")
    keep_audit: float = _asked("400d", "TIME", "Keep the audit log this long.", parse_duration)
    caps: Caps = Caps()
    log_level: Literal["debug", "info", "warning", "error"] = _asked(
        "info", "debug|info|warning|error", "How much the service logs."
    )
    executor: Literal["process", "docker", "both"] = _asked(
        "process", "process|docker|both", "How this machine runs jobs: as processes, in containers."
    )
    image: str = _asked("", "IMAGE", "Default image of jobs and servers that name none.")
    shared_checkpoints: Path | None = _asked(
        None, "DIR", "A folder shared by all servers; without it, checkpoints are copied.", _absolute
    )
    allow_mounts: tuple[str, ...] = _asked(
        None,
        "DIR[:rw]",
        "Containers may mount DIR and its subfolders; with :rw only DIR, writable. Repeatable.",
        _all_of,
    )
    networks: str = _asked(NETWORKS, "RANGE", "Address range of container networks.")
    host_network: bool = _asked(
        True, "--host-network/--no-host-network", "Let containers that need it use the host network."
    )
    setup_time: float = _asked("1h", "TIME", "Time limit for the setup lines of a job.", parse_duration)
    lost_after: float = _asked(
        "5m", "TIME", "Treat jobs on an unreachable server as lost after this long.", parse_duration
    )
    regrow_after: float = _asked(
        "30s", "TIME", "Wait before a job that lost a worker may grow again; doubled each time.", parse_duration
    )
    mail_command: str = _asked("", "COMMAND", "Sends the e-mail on its standard input: 'sendmail -t'.")
    allow_notify: tuple[str, ...] = _asked(
        None, "RULE", "Addresses that jobs may notify: https://…, @example.org, public. Repeatable.", _all_of
    )
    uids: tuple[int, int] = _asked(
        f"{FIRST}-{LAST}",
        "FIRST-LAST",
        "As root: each user's jobs run under a uid of their own from this range.",
        _uids,
    )
    root_jobs: bool = _asked(False, "--root-jobs", "As root: run jobs as root, too. Only if you are the only user.")
    url: str = _asked(
        "", "URL", "The API's address as jobs reach it; for --only dashboard, the service's address.", _url
    )
    tls: bool = _asked(False, "--tls", "Use TLS with a generated certificate; shows its fingerprint.")
    tls_cert: Path | None = _asked(None, "FILE", "Use TLS with this certificate.", _file)
    tls_key: Path | None = _asked(None, "FILE", "The key of that certificate.", _file)
    insecure: bool = _asked(
        False, "--insecure", "Accept other machines without TLS: tokens can be read on the network."
    )

    def __post_init__(self) -> None:
        self._check_tls()
        _check_uids(*self.uids)
        for rule in self.allow_notify:
            check_rule(rule, "--allow-notify")
        _check_command(self.mail_command, "--mail-command")
        private = [self.data, *([self.shared_checkpoints] if self.shared_checkpoints else [])]
        check_roots(self.allow_mounts, private)
        check_networks(self.networks)
        if self.image:
            check_image(self.image, "--image")

    def _check_tls(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            missing = "--tls-key" if self.tls_cert else "--tls-cert"
            raise InvalidSpec(missing, "it is missing", "a certificate and its key, or --tls for one that is made here")
        if self.tls and self.tls_cert:
            raise InvalidSpec("--tls", "there is a certificate already", "--tls, or --tls-cert and --tls-key")
        if self.listens and not self.secure and not self.insecure and not self.on_loopback:
            raise InvalidSpec(
                "--host",
                f"{self.host} is reached from other machines, and without TLS whoever is in between reads every token",
                "--tls (makes a certificate), --tls-cert and --tls-key, a proxy with TLS in front of 127.0.0.1, or "
                "--insecure if the network is all yours",
            )

    @property
    def folder(self) -> "DataFolder":
        return DataFolder(self.data)

    @property
    def listens(self) -> bool:
        """Whether clients can connect to it: not to a scheduler alone."""
        return self.roles != {"scheduler"}

    @property
    def secure(self) -> bool:
        return self.tls or self.tls_cert is not None

    @property
    def on_loopback(self) -> bool:
        """Whether it listens for this machine alone."""
        return all(ipaddress.ip_address(one).is_loopback for one in _addresses(self.host))


class Question(NamedTuple):
    """An option of `up`, and the field that it fills."""

    name: str
    kind: Any  # the type of the field
    asked: Asked


def questions(of: type[Options] | type[Caps] = Options) -> Iterator[Question]:
    """The options of `up`, in their order."""
    kinds = get_type_hints(of)
    for one in fields(of):
        if one.type is Caps:
            yield from questions(Caps)
        elif asked := one.metadata.get("asked"):
            yield Question(asked.name or one.name, kinds[one.name], asked)


def options_of(data: Path, only: str | None, given: Mapping[str, Any]) -> Options:
    """From what was written as options; InvalidSpec names the one that is wrong."""

    def values(of: type[Options] | type[Caps]) -> dict[str, Any]:
        return {
            one.name: asked.read(given[name], "--" + name.replace("_", "-")) if asked.read else given[name]
            for one in fields(of)
            if (asked := one.metadata.get("asked")) and (name := asked.name or one.name)
        }

    roles = frozenset({only}) if only else ALL_ROLES
    return Options(data=data, roles=roles, caps=Caps(**values(Caps)), **values(Options))


class _Below:
    """A place in the data folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "DataFolder", _: type["DataFolder"]) -> Path:
        return folder.root / self._name


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The layout of the data folder: the one place that knows it."""

    root: Path

    database = _Below("schedulearn.db")
    reserve = _Below("reserve")  # space that the database is given when there is no other
    client_file = _Below("client.json")
    clock = _Below("clock.json")  # how the service's clock stood against that of the machine
    nudge_socket = _Below("nudge.sock")
    beside_socket = _Below("beside.sock")  # where the scheduler is asked to do things beside running jobs
    snapshots = _Below("snapshots")
    jobs = _Below("jobs")
    reports = _Below("reports")  # what `compare` and `experiment run` wrote, a folder each, for the page
    tls = _Below("tls")  # for engines at tcp://…: ca.pem, cert.pem and key.pem, or a folder of them for each host
    own_tls = _Below("tls-server")  # the certificate that the service made for itself
    start_lock = _Below("start.lock")  # held while the first administrator is made, or client.json is changed

    def page_logins(self, by: str) -> Path:
        """Who is logged in to the page: to that of the service, or to one that runs alone. Two may run at once."""
        return self.root / f"{by}-logins.json"

    def lock(self, role: str) -> Path:
        return self.root / f"{role}.lock"


def _addresses(host: str) -> list[str]:
    """InvalidSpec if there is no such host."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InvalidSpec("--host", f"{host!r} is not known: {error.strerror}", "an address of this machine") from error
    return [str(one[4][0]).partition("%")[0] for one in found]


def _check_uids(first: int, last: int) -> None:
    if not FIRST_PERSON <= first < last <= LARGEST:
        raise InvalidSpec("--uids", f"{first}-{last} is no range for users", f"within {FIRST_PERSON}-{LARGEST}")


def _check_command(command: str, field: str) -> None:
    """InvalidSpec if it could never be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSpec(field, f"{command!r} cannot be split into words: {error}", "such as sendmail -t") from error
    if words and not shutil.which(words[0]):
        raise InvalidSpec(field, f"there is no program {words[0]}", "such as sendmail -t, or the whole path")
