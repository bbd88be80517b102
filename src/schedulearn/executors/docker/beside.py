"""What a user may do beside a running worker: run a command in its container, and fetch its files."""

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from schedulearn.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.domain.ids import WorkerId
from schedulearn.executors.common.archive import moved
from schedulearn.executors.docker.calls import Refused
from schedulearn.executors.docker.containers import Containers, State
from schedulearn.executors.docker.rules import WORK


class Running:
    """A command in a container: iterate over its output, then ask for its exit code."""

    def __init__(self, containers: Containers, command: str) -> None:
        self._containers, self._command = containers, command

    def __iter__(self) -> Iterator[bytes]:
        """Standard output and standard error as they come."""
        with self._containers.calls.api() as api:
            chunks = api.exec_start(self._command, stream=True)
        return self._containers.calls.stream(chunks)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        with self._containers.calls.api() as api:
            code = api.exec_inspect(self._command)["ExitCode"]
        return None if code is None else int(code)


class Beside:
    """For one engine. Calls wait for it; none takes longer than its time-out before the first byte."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def run(self, worker: WorkerId, command: list[str]) -> Running:
        """As the job's own user, with its rights, limits and environment, in its run folder.

        NotFound if it does not run, Conflict if it is paused.
        """
        state = self._running(worker)
        if state.status == "paused":
            raise Conflict(f"job {worker.job} is paused: resume it first")
        with self._containers.calls.api() as api:
            user: Any = api.inspect_container(state.id)["Config"]["User"]
            made = api.exec_create(state.id, command, user=user, workdir=WORK, stdin=False, tty=False)
        return Running(self._containers, made["Id"])

    def files(self, worker: WorkerId, path: str) -> Iterator[bytes]:
        """A tar stream of `path` (relative; "" is everything) in the run folder, its names relative to that folder.

        NotFound before the first byte if there is no such container or file.
        """
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\0" in path:
            raise InvalidSpec(
                "path", "leads out of the job's folder", "a path inside the run folder, e.g. out/model.pt"
            )
        state = self._running(worker)
        try:
            chunks = self._containers.get(state.id, posixpath.join(WORK, *pure.parts))
        except Refused as refusal:
            if refusal.not_found:
                raise NotFound(f"there is no {path!r} among the files of this job") from refusal
            raise
        return moved(chunks, str(pure))

    def _running(self, worker: WorkerId) -> State:
        state = self._containers.find(self._containers.name(worker))
        if state is None or not state.alive:
            raise NotFound(f"worker {worker} does not run")
        return state
