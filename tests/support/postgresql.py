"""A real PostgreSQL for tests, on a folder of its own, reached through a socket there."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from schedulearn.executors.kernel.procfs import descendants

PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)  # None: it is not here
_QUICK = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"


class PostgreSQL:
    """One server. Use it in a `with` statement; meanwhile it can be stopped, started and stalled."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="schedulearn-pg-"))
        self._data = self.folder / "data"
        self._user = _unprivileged()

    def __enter__(self) -> "PostgreSQL":
        if self._user:
            shutil.chown(self.folder, self._user)
        try:
            self._run("initdb", "-D", str(self._data), "-U", "schedulearn", "-A", "trust", "-E", "UTF8", "--no-sync")
            self.start()
        except BaseException:
            self._forget()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._forget()

    def start(self) -> None:
        """Returns when it answers; nothing if it runs already."""
        if not self._pid():
            options = f"-c listen_addresses= -c unix_socket_directories={self.folder} {_QUICK}"
            self._run("pg_ctl", "-D", str(self._data), "-l", str(self.folder / "log"), "-o", options, "-w", "start")

    def stop(self) -> None:
        """At once, as in a crash."""
        if self._pid():
            self.go_on()
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def stall(self) -> None:
        """Nobody is answered, and no connection breaks."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def url(self, name: str, driver: str = "") -> str:
        return f"postgresql{driver}://schedulearn@/{name}?host={self.folder}"

    def execute(self, name: str, statement: str) -> None:
        """One statement in the database of this name."""
        engine = sa.create_engine(self.url(name, "+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(statement))
        engine.dispose()

    def _signal(self, number: signal.Signals) -> None:
        pid = self._pid()
        for one in (pid, *descendants(pid)) if pid else ():
            with suppress(ProcessLookupError):
                os.kill(one, number)

    def _pid(self) -> int:
        """0: it does not run."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n")[0])
            os.kill(pid, 0)
        except (OSError, ValueError):
            return 0
        return pid

    def _run(self, program: str, *words: str) -> None:
        assert PROGRAMS, "PostgreSQL's programs are not on this machine"
        command = [PROGRAMS / program, *words]
        subprocess.run(command, user=self._user, cwd=self.folder, check=True, capture_output=True, timeout=120)

    def _forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _unprivileged() -> str | None:
    """Who PostgreSQL runs as: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
