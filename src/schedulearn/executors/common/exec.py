"""What a user may do in a running worker: execute a command where it runs, and fetch its files from there."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from schedulearn.core.domain.errors import Conflict
from schedulearn.core.domain.ids import WorkerId

STDOUT, STDERR = 1, 2  # where a piece of output was written


class NotRunning(Conflict):
    """There is no such worker, or it has ended."""


class Command(Protocol):
    """A command that runs. Iterate over its output in one thread; any other may `end` it."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """(STDOUT or STDERR, bytes) as they come; ends when the command has ended, and it is cleaned up after."""

    @property
    def exit_code(self) -> int:
        """Once all output was read. As in a shell: 128 + N if signal N ended it, 126 or 127 if it did not start."""

    def end(self) -> None:
        """Kill it with all that it started. The output ends."""


@runtime_checkable
class Exec(Protocol):
    """Of one executor."""

    def run(self, worker: WorkerId, command: list[str]) -> Command:
        """As the job's own user, with its environment and its limits, in its run folder. Its standard input is empty.

        NotRunning if the worker is not running, Conflict if it is suspended and the command would be, too.
        """

    def files(self, worker: WorkerId, path: str) -> Iterator[bytes] | None:
        """A tar stream of `path` (relative; "" is everything) in the run folder; None: it is on the service's side.

        NotFound before the first byte if there is no such file.
        """


@runtime_checkable
class HasExec(Protocol):
    """An executor with workers in which commands can be executed."""

    @property
    def exec(self) -> Exec: ...
