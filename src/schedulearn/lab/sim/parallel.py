"""Several policies and workloads at once, in processes of their own."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread

from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import Choice, PolicyFailed, Progress, Study

Outcome = Result | PolicyFailed
Task = tuple[Study, Choice]  # one of the study's policies
Told = Callable[[int, int], None]  # so many jobs have completed in this task; 0 when it begins

_SPAWN = get_context("spawn")  # a fork would copy the threads of a progress bar in whatever state they are


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(tasks: Sequence[Task], told: Told, processes: int | None = None) -> list[Outcome]:
    """What came of each. A policy that fails keeps no other from running.

    No process outlives this call: on an error or Ctrl-C they are ended.
    """
    count = min(processes or cores(), len(tasks))
    if count > 1:
        return _Pool(tasks, told).run(count)
    return [_outcome(task, partial(told, index)) for index, task in enumerate(tasks)]


def _outcome(task: Task, told: Progress) -> Outcome:
    study, choice = task
    told(0)
    try:
        return study.run(choice, told)
    except PolicyFailed as failed:
        return failed


class _Pool:
    """So many processes at most. Each takes one task after another, since to start one costs half a second."""

    def __init__(self, tasks: Sequence[Task], told: Told) -> None:
        self._tasks, self._told = tasks, told
        self._left = list(range(len(tasks)))
        self._running: dict[Connection, tuple[int, BaseProcess]] = {}
        self._outcomes: dict[int, Outcome] = {}

    def run(self, count: int) -> list[Outcome]:
        try:
            while self._left or self._running:
                while self._left and len(self._running) < count:
                    self._give(*self._start())
                for connection in wait(list(self._running)):
                    self._listen(connection)  # type: ignore[arg-type] # we gave it connections alone
        finally:
            for _, process in self._running.values():
                process.terminate()
                process.join()
        return [self._outcomes[index] for index in sorted(self._outcomes)]

    def _start(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(self._tasks, theirs), daemon=True)
        with _held_back(signal.SIGINT):
            process.start()
        theirs.close()
        return ours, process

    def _give(self, connection: Connection, process: BaseProcess) -> None:
        """Its next task. One that has died meanwhile is heard of when it is listened to."""
        index = self._left.pop(0)
        self._running[connection] = (index, process)
        with suppress(ConnectionError):
            connection.send(index)

    def _listen(self, connection: Connection) -> None:
        index, process = self._running[connection]
        study, choice = self._tasks[index]
        try:
            message = connection.recv()
        except (EOFError, ConnectionError):
            process.join()
            message = PolicyFailed(choice.label, f"its process ended with {process.exitcode}", "")
        if isinstance(message, int):
            self._told(index, message)
            return
        self._told(index, len(study.workload.jobs))
        self._outcomes[index] = message
        if self._left and process.is_alive():
            self._give(connection, process)
            return
        del self._running[connection]
        connection.close()  # which ends it
        process.join()


@contextmanager
def _held_back(signum: signal.Signals) -> Iterator[None]:
    """A process started meanwhile never gets the signal, not even while it imports; this one gets it afterwards.

    Ctrl-C reaches the whole group. It is for the process that started the others: it ends them.
    """
    resource_tracker.ensure_running()  # the first process would start it, and that lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signum])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(tasks: Sequence[Task], connection: Connection) -> None:
    """In its own process."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(ConnectionError, EOFError):  # the parent process has ended, or has no more work
        while True:
            connection.send(_outcome(tasks[connection.recv()], connection.send))


def _end_with_parent() -> None:
    """A parent that was killed cannot end us; and a simulation has nothing to save."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
