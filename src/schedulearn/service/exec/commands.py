"""What the API offers beside a job that runs: a command, and its files as they are now."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

from schedulearn.archive.pack import END, pack_found
from schedulearn.archive.walk import Tree
from schedulearn.core.domain.errors import Conflict, InvalidSpec, NotFound
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Worker
from schedulearn.executors.common.exec import NotRunning
from schedulearn.executors.common.paths import JobPaths
from schedulearn.service.common.auth import Caller
from schedulearn.service.common.config import DataFolder
from schedulearn.service.exec.client import Session
from schedulearn.store import JobRow, Store


class Commands:
    """All of it is for the job's owner and for administrators: it may show, and change, anything that the job can."""

    def __init__(self, store: Store, data: Path, own: Callable[[Caller, JobId], JobRow]) -> None:
        """`own` is the job if the caller may do this to it."""
        self._store, self._data, self._own = store, data, own
        self._socket = DataFolder(data).beside_socket

    async def run(self, caller: Caller, job: JobId, rank: int, command: Sequence[str]) -> AsyncIterator[bytes]:
        """Output and exit code as frames. The command is ended when they are not read any more."""
        worker = await asyncio.to_thread(self._running, caller, job, rank, command[0])
        asked = {"worker": str(worker.id), "node": worker.node, "command": list(command), "by": caller.name}
        return (await Session.begin(self._socket, asked)).frames()

    async def files(self, caller: Caller, job: JobId, path: str) -> Iterator[bytes] | AsyncIterator[bytes]:
        """A tar stream of the run folder: from the container while there is one, else from the service's side."""
        worker = await asyncio.to_thread(self._in_container, caller, job)
        if worker:
            asked = {"worker": str(worker.id), "node": worker.node, "path": path}
            try:
                return (await Session.begin(self._socket, asked)).content()
            except NotRunning:
                pass  # it has ended just now, and its files have been fetched
        return await asyncio.to_thread(tar_of, JobPaths.of(self._data, job).run, path)

    def _running(self, caller: Caller, job: JobId, rank: int, program: str) -> Worker:
        row = self._own(caller, job)
        workers = {worker.id.rank: worker for worker in self._newest(job)}
        worker = workers.get(rank)
        if worker is None and rank and workers:
            raise NotFound(f"attempt {row.job.attempt_id} has no worker {rank}")
        if worker and worker.left_at is not None and (others := [w for w in workers.values() if _runs(w)]):
            ranks = ", ".join(str(other.id.rank) for other in others)
            raise Conflict(f"worker {worker.id} has left its job; those that run: {ranks}")
        if worker is None or worker.started_at is None or worker.ended_at is not None:
            raise Conflict(f"job {job} is not running: it {row.job.state.in_words}")
        # The program alone: its arguments may hold secrets.
        self._store.note_act("job.exec", f"job {job}", row.job.user, program=program[:200], worker=rank)
        return worker

    def _in_container(self, caller: Caller, job: JobId) -> Worker | None:
        """The worker whose run folder counts, if a container has it."""
        row = self._own(caller, job)
        if row.owner != caller.id:
            self._store.note_act("job.pull", f"job {job}", row.job.user)
        first = next((worker for worker in self._newest(job) if worker.left_at is None), None)
        if first is None or first.ended_at is not None:
            return None
        node = next((node for node in self._store.list_nodes() if node.name == first.node), None)
        return first if node and node.executor != "process" else None

    def _newest(self, job: JobId) -> list[Worker]:
        row = self._store.job(job)
        number = row.job.attempt if row else 0
        return next((attempt.workers for attempt in self._store.attempts_of(job, number, number)), [])


def _runs(worker: Worker) -> bool:
    return worker.started_at is not None and worker.ended_at is None and worker.left_at is None


# --- files, without ever following a link out of the folder


def tar_of(root: Path, path: str) -> Iterator[bytes]:
    """A tar stream of `path` (relative; "" is everything) below `root`. Errors are raised before the first byte."""
    stream = _stream(root, _parts(path), path)
    return chain([next(stream)], stream)


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > 4096:
        raise InvalidSpec("path", "leads out of the job's folder", "a path inside the run folder, such as out/model.pt")
    return pure.parts


def _stream(root: Path, parts: tuple[str, ...], path: str) -> Iterator[bytes]:
    try:
        tree = Tree(root)
    except OSError:
        raise NotFound("this job has no files: it has not started yet, or they have been removed") from None
    with tree:
        found = None
        for found in tree.at(parts):
            yield from pack_found(found, str(PurePosixPath(*found.parts)))
        if found is None:
            raise NotFound(f"there is no {path!r} among the files of this job (links are not followed)")
        yield END
