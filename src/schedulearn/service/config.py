"""How the service is started, and where it keeps things."""

from dataclasses import dataclass
from pathlib import Path

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
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    def lock(self, role: str) -> Path:
        return self.root / f"{role}.lock"
