"""How the service is started, and where it keeps things."""

import ipaddress
import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.image import check_image
from schedulearn.core.domain.notice import check_rule
from schedulearn.executors.docker.mounts import check_roots
from schedulearn.executors.docker.networks import check_networks
from schedulearn.executors.docker.rules import NETWORKS
from schedulearn.service.common.identity import FIRST, FIRST_PERSON, LARGEST, LAST

ALL_ROLES = frozenset({"api", "scheduler"})
DEFAULT_PORT = 7311
DEFAULT_UIDS = (FIRST, LAST)


@dataclass(frozen=True, slots=True)
class Caps:
    """What one user, or one job, may have at the most; 0: any amount."""

    jobs: int = 50_000  # unfinished ones
    specs: int = 100 * 1000**2  # characters of their specs: they are kept in memory
    snapshots: int = 20 * 1000**3  # bytes of uploads that are kept
    disk: int = 200 * 1000**3  # bytes of the folders of their jobs, above which no more jobs are taken
    tokens: int = 500  # of the person; those of jobs do not count
    job_disk: int = 0  # bytes of the folder of one job, above which it is stopped


@dataclass(frozen=True, slots=True)
class Options:
    """What `schedulearn up` was told."""

    data: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT  # 0: any free one
    roles: frozenset[str] = ALL_ROLES
    database: str | None = None  # a PostgreSQL URL; None: SQLite in the data folder
    keep_seconds: float = 30 * 86400.0  # how long the files of finished jobs are kept
    keep_bytes: int = 50 * 1000**3  # and how much of them
    log_level: str = "info"
    executor: str = "process"  # how this machine itself runs jobs: process, docker, both
    image: str = ""  # for jobs that name none, on nodes that have no other
    shared_checkpoints: Path | None = None  # the same folder on every server
    allow_mounts: tuple[str, ...] = ()  # folders of servers that jobs may mount; with :rw at the end also to write
    setup_time: float = 3600.0  # seconds that the preparation of an image may take
    host_network: bool = True  # whether containers that cannot do without may share their server's network
    networks: str = NETWORKS  # where the networks of containers take their addresses
    lost_after: float = 300.0  # seconds after which the workers of a server that does not answer are given up
    regrow_after: float = 30.0  # seconds after which a job that lost a worker, and went on, may grow again
    page: bool = True  # whether the API has the web page beside it
    mail_command: str = ""  # takes an e-mail on its standard input; "": no e-mails are sent
    allow_notify: tuple[str, ...] = ()  # addresses to which every user may have notices sent
    url: str = ""  # the address that jobs are given; "": that of host and port
    caps: Caps = Caps()  # of one user
    keep_audit: float = 400 * 86400.0  # seconds for which the audit log is kept
    tls: bool = False  # with a certificate that the service makes itself
    tls_cert: Path | None = None  # or with this one, and everything that signs it
    tls_key: Path | None = None
    insecure: bool = False  # listen beyond loopback without TLS all the same
    uids: tuple[int, int] = DEFAULT_UIDS  # from which to which; each user's jobs run as one of them
    root_jobs: bool = False  # whether a service that is root runs jobs as root, too
    accept_data: bool = False  # whether a database may go on with another data folder than before

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
