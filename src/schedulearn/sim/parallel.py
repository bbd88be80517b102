"""Several policies of a study at once, each in a process of its own."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread

from schedulearn.sim.metrics import Result
from schedulearn.sim.run import Choice, PolicyFailed, Study

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
    """So many processes at most, one for each policy."""

    def __init__(self, study: Study, told: Told) -> None:
        self._study, self._told = study, told
        self._running: dict[Connection, tuple[int, BaseProcess]] = {}
        self._outcomes: dict[int, Outcome] = {}

    def run(self, count: int) -> list[Outcome]:
        left = list(range(len(self._study.choices)))
        try:
            while left or self._running:
                while left and len(self._running) < count:
                    self._start(left.pop(0))
                for connection in wait(list(self._running)):
                    self._listen(connection)  # type: ignore[arg-type] # we gave it connections alone
        finally:
            for _, process in self._running.values():
                process.terminate()
                process.join()
        return [self._outcomes[index] for index in sorted(self._outcomes)]

    def _start(self, index: int) -> None:
        ours, theirs = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_work, args=(self._study, index, theirs), daemon=True)
        with _held_back(signal.SIGINT):
            process.start()
        theirs.close()
        self._running[ours] = (index, process)

    def _listen(self, connection: Connection) -> None:
        index, process = self._running[connection]
        choice = self._study.choices[index]
        try:
            message = connection.recv()
        except EOFError:
            process.join()
            message = PolicyFailed(choice.label, f"its process ended with {process.exitcode}", "")
        if isinstance(message, int):
            self._told(choice, message)
            return
        self._told(choice, len(self._study.workload.jobs))
        self._outcomes[index] = message
        del self._running[connection]
        connection.close()
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


def _work(study: Study, index: int, connection: Connection) -> None:
    """In its own process."""
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(BrokenPipeError):  # who started us has gone: there is nobody to tell
        connection.send(_outcome(study, study.choices[index], lambda _, done: connection.send(done)))


def _end_with_parent() -> None:
    """A parent that was killed cannot end us; and a simulation has nothing to save."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
