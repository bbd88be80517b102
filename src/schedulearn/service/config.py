"""How the service is started, and where it keeps things."""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from schedulearn.domain.errors import InvalidSpec
from schedulearn.domain.notice import check_rule

ALL_ROLES = frozenset({"api", "scheduler"})
DEFAULT_PORT = 7311


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
    allow_mounts: tuple[str, ...] = ()  # below which paths jobs may mount; with :rw at the end also to write
    lost_after: float = 300.0  # seconds after which the workers of a server that does not answer are given up
    regrow_after: float = 30.0  # seconds after which a job that lost a worker, and went on, may grow again
    page: bool = True  # whether the API has the web page beside it
    mail_command: str = ""  # takes an e-mail on its standard input; "": no e-mails are sent
    allow_notify: tuple[str, ...] = ()  # addresses that anybody may have told of the ends of their jobs
    url: str = ""  # the address that jobs are given; "": that of host and port

    def __post_init__(self) -> None:
        for rule in self.allow_notify:
            check_rule(rule, "--allow-notify")
        _check_command(self.mail_command, "--mail-command")

    @property
    def folder(self) -> "DataFolder":
        return DataFolder(self.data)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The layout of the data folder: the one place that knows it."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "schedulearn.db"

    @property
    def client_file(self) -> Path:
        return self.root / "client.json"

    @property
    def nudge_socket(self) -> Path:
        return self.root / "nudge.sock"

    @property
    def beside_socket(self) -> Path:
        """Where the scheduler is asked to do things beside running jobs."""
        return self.root / "beside.sock"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def reports(self) -> Path:
        """What `compare` and `experiment run` wrote, a folder each, for the page."""
        return self.root / "reports"

    @property
    def tls(self) -> Path:
        """Certificates for engines at tcp://…: ca.pem, cert.pem and key.pem, or a folder of them for each host."""
        return self.root / "tls"

    def lock(self, role: str) -> Path:
        return self.root / f"{role}.lock"


def _check_command(command: str, field: str) -> None:
    """InvalidSpec if it could never be run."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidSpec(field, f"{command!r} cannot be split into words: {error}", "such as sendmail -t") from error
    if words and not shutil.which(words[0]):
        raise InvalidSpec(field, f"there is no program {words[0]}", "such as sendmail -t, or the whole path")
