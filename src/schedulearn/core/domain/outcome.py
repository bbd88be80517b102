"""How a worker ended, and how to say it in words."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from schedulearn.core.domain.units import format_size


class Ending(StrEnum):
    EXITED = "exited"  # by itself: `exit_code` says how
    SIGNALLED = "signalled"  # killed by `signal`
    OUT_OF_MEMORY = "out_of_memory"  # killed because of its memory limit
    NOT_STARTED = "not_started"  # could not be started at all: `detail` says why
    NODE_FAULT = "node_fault"  # its node could not start it: no files, memory or disk left. Not the job's fault
    LOST = "lost"  # nobody saw it end: the machine rebooted or went away. Not the job's fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one worker ended."""

    ending: Ending
    exit_code: int | None = None
    signal: int | None = None
    memory_limit: int | None = None  # bytes, where it was the cause
    detail: str = ""  # more, for a person

    @property
    def ok(self) -> bool:
        return self.ending is Ending.EXITED and self.exit_code == 0

    @property
    def counts_as_failure(self) -> bool:
        """Whether it uses up one of the job's restarts."""
        return not self.ok and self.ending not in (Ending.LOST, Ending.NODE_FAULT)

    def words(self) -> str:
        return _WORDS[self.ending](self) + (f": {self.detail}" if self.detail else "")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _out_of_memory(outcome: Outcome) -> str:
    limit = f" (limit {format_size(outcome.memory_limit)})" if outcome.memory_limit else ""
    return f"killed by SIGKILL: out of memory{limit}"


def _exited(outcome: Outcome) -> str:
    meaning = {0: "finished", 126: "exit code 126: not executable", 127: "exit code 127: command not found"}
    return meaning.get(outcome.exit_code or 0, f"exit code {outcome.exit_code}")


_WORDS: dict[Ending, Callable[[Outcome], str]] = {
    Ending.EXITED: _exited,
    Ending.SIGNALLED: lambda outcome: f"killed by {signal_name(outcome.signal or 0)}",
    Ending.OUT_OF_MEMORY: _out_of_memory,
    Ending.NOT_STARTED: lambda _: "could not be started",
    Ending.NODE_FAULT: lambda _: "could not be started by its node",
    Ending.LOST: lambda _: "lost: nobody saw it end",
}
