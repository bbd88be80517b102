"""Several policies of a study at once, in processes of their own."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread

from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import Choice, PolicyFailed, Study

Outcome = Result | PolicyFailed
Told = Callable[[Choice, int], None]  # so many jobs have completed under this policy; 0 when it begins

_SPAWN = get_context("spawn")  # a fork would copy the threads of a progress bar in whatever state they are


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(study: Study, told: Told, processes: int | None = None) -> list[Outcome]:
    """Every policy of the study, in its order. One that fails keeps no other from running.

    No process outlives this call: on an error or Ctrl-C they are ended.
    """
    count = min(processes or cores(), len(study.choices))
    if count > 1:
        return _Pool(study, told).run(count)
    return [_outcome(study, choice, told) for choice in study.choices]


def _outcome(study: Study, choice: Choice, told: Told) -> Outcome:
    told(choice, 0)
    try:
        return study.run(choice, lambda done: told(choice, done))
    except PolicyFailed as failed:
        return failed


class _Pool:
    """So many processes at most. Each takes one policy after another, since to start one costs half a second."""

    def __init__(self, study: Study, told: Told) -> None:
        self._study, self._told = study, told
        self._left = list(range(len(study.choices)))
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
        process = _SPAWN.Process(target=_work, args=(self._study, theirs), daemon=True)
        with _held_back(signal.SIGINT):
            process.start()
        theirs.close()
        return ours, process

    def _give(self, connection: Connection, process: BaseProcess) -> None:
        """Its next policy. One that has died meanwhile is heard of when it is listened to."""
        index = self._left.pop(0)
        self._running[connection] = (index, process)
        with suppress(ConnectionError):
            connection.send(index)

    def _listen(self, connection: Connection) -> None:
        index, process = self._running[connection]
        choice = self._study.choices[index]
        try:
            message = connection.recv()
        except (EOFError, ConnectionError):
            process.join()
            message = PolicyFailed(choice.label, f"its process ended with {process.exitcode}", "")
        if isinstance(message, int):
            self._told(choice, message)
            return
        self._told(choice, len(self._study.workload.jobs))
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


def _work(study: Study, connection: Connection) -> None:
    """In its own process."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(ConnectionError, EOFError):  # the parent process has ended, or has no more work
        while True:
            choice = study.choices[connection.recv()]
            connection.send(_outcome(study, choice, lambda _, done: connection.send(done)))


def _end_with_parent() -> None:
    """A parent that was killed cannot end us; and a simulation has nothing to save."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
