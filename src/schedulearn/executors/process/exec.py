"""Commands beside a worker that is a process of this machine. Each has a companion that watches over it."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from schedulearn.core.domain.ids import WorkerId
from schedulearn.executors.common.exec import STDERR, STDOUT, NotRunning
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.process import companion
from schedulearn.executors.process.claim import Claim, is_held, read_claim

_CHUNK = 1 << 16
_END_WITHIN = 2 * companion.KILL_TIME


class ProcessExec:
    """All that it needs is in the worker's folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, worker: WorkerId, command: list[str]) -> "ProcessCommand":
        """Also beside one that is suspended: the command itself is not."""
        paths = WorkerPaths.of(self._root, worker)
        claim = read_claim(paths.claim)
        if claim is None or claim.started_at is None or not is_held(paths.claim):
            raise NotRunning(f"worker {worker} is not running")
        return ProcessCommand(paths, claim, command)

    def files(self, worker: WorkerId, path: str) -> None:
        """It works in the run folder of the service's side itself."""


class ProcessCommand:
    """Implements `common.exec.Command`."""

    def __init__(self, paths: WorkerPaths, claim: Claim, command: list[str]) -> None:
        env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        self._companion = subprocess.Popen(
            [sys.executable, "-I", "-S", companion.__file__, str(paths.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        worker, shim = (claim.child_pid, claim.child_start_time), (claim.pid, claim.start_time)
        self._tell({"argv": command, "worker": worker, "shim": shim})

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        out, err = self._companion.stdout, self._companion.stderr
        assert out
        assert err
        try:
            yield from self._pieces(out, err)
        finally:
            self.end()
            with suppress(subprocess.TimeoutExpired):
                self._companion.wait(_END_WITHIN)
            out.close()
            err.close()

    @property
    def exit_code(self) -> int:
        return self._companion.wait(_END_WITHIN)

    def end(self) -> None:
        assert self._companion.stdin
        with suppress(OSError):
            self._companion.stdin.close()

    def _tell(self, orders: dict[str, object]) -> None:
        assert self._companion.stdin
        with suppress(BrokenPipeError):  # it has ended: its exit code says so
            self._companion.stdin.write(json.dumps(orders).encode() + b"\n")
            self._companion.stdin.flush()

    def _pieces(self, out: IO[bytes], err: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        """Until the companion has ended. A process that hangs in the kernel may keep its output open for longer."""
        ended = os.pidfd_open(self._companion.pid)
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(ended, selectors.EVENT_READ)
                ready.register(out, selectors.EVENT_READ, STDOUT)
                ready.register(err, selectors.EVENT_READ, STDERR)
                while pieces := ready.select():
                    written = [(key.fd, key.data) for key, _ in pieces if key.data]
                    for fd, stream in written:
                        if data := os.read(fd, _CHUNK):
                            yield stream, data
                        else:
                            ready.unregister(fd)
                    if not written:  # it has ended, and all that it wrote was read
                        return
        finally:
            os.close(ended)
