"""A simulated worker: a few numbers say what it does, and time and signals what becomes of it."""

import math
import signal
from dataclasses import dataclass

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.units import format_size
from schedulearn.core.domain.usage import Limits, Usage

_KILLED = Outcome(Ending.SIGNALLED, signal=signal.SIGKILL.value)
_TERMINATED = Outcome(Ending.SIGNALLED, signal=signal.SIGTERM.value)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a worker does, left alone and when it is asked to end. Seconds are of running at full speed."""

    runs: float = math.inf  # seconds until it ends by itself
    exit_code: int = 0  # what it says then
    term_takes: float = 0.0  # seconds from SIGTERM to its end; math.inf: it ignores the signal
    term_code: int | None = None  # SIGTERM makes it save a checkpoint and exit so; None: the signal kills it
    cores: float = 1.0  # that it keeps busy
    memory: int = 0  # bytes that it holds
    leaves_after: float = math.inf  # seconds until it ends well once it no longer belongs to its group
    problem: str = ""  # why it cannot be started


@dataclass(frozen=True, slots=True)
class End:
    at: float
    outcome: Outcome
    saved: bool = False  # whether it left a checkpoint


class SimulatedWorker:
    """One that was started. It makes no progress while it is paused, and less under a limit of fewer cores."""

    def __init__(self, behaviour: Behaviour, limits: Limits, now: float) -> None:
        self.limits = limits
        self.group: Group | None = None  # None: it was never told of one
        self.started_at: float | None = None if behaviour.problem else now
        self.end = End(now, Outcome(Ending.NOT_STARTED, detail=behaviour.problem)) if behaviour.problem else None
        self._behaviour = behaviour
        self._left, self._own_end = behaviour.runs, Outcome(Ending.EXITED, exit_code=behaviour.exit_code)
        self._kill_at = math.inf
        self._asked_to_end = self._saving = self._paused = False
        self._worked, self._since = 0.0, now  # seconds at full speed, up to that moment

    @property
    def runs(self) -> bool:
        return self.end is None

    def due(self) -> float:
        """When it ends if nobody does anything more."""
        return min(self._ends_by_itself(), self._kill_at) if self.runs else math.inf

    def end_now(self) -> None:
        """The time that `due` told has come."""
        if self._ends_by_itself() <= self._kill_at:
            self.end = End(self.due(), self._own_end, self._saving)
        else:
            self.end = End(self.due(), _KILLED)

    def stop(self, now: float, grace: float) -> None:
        """SIGTERM, unless there is no grace at all; SIGKILL when it is over. A second word may only shorten it."""
        self._kill_at = min(self._kill_at, now + max(0.0, grace))
        if grace > 0 and not self._asked_to_end:
            self._asked_to_end = True
            self.resume(now)  # one that stands still sees the signal only when it goes on
            self._terminate()

    def pause(self, now: float) -> None:
        self._work(now)
        self._paused = True

    def resume(self, now: float) -> None:
        self._work(now)
        self._paused = False

    def regroup(self, now: float, rank: int, group: Group) -> None:
        """It is told who trains together, and leaves if it is not among them."""
        if self.group and self.group.generation >= group.generation:
            return
        self.group = group
        if rank not in group.members:
            self._work(now)
            self._left = min(self._left, self._behaviour.leaves_after)

    def set_limits(self, now: float, limits: Limits) -> str:
        """Returns why they cannot be; then nothing has changed."""
        held = self._behaviour.memory
        if limits.memory is not None and limits.memory < held:
            return f"a memory limit of {format_size(limits.memory)} is below the {format_size(held)} that it holds"
        self._work(now)
        self.limits = limits.over(self.limits)
        return ""

    def usage(self, now: float) -> Usage:
        worked = self._worked + self._done(now)
        return Usage(now, worked * self._behaviour.cores, self._behaviour.memory, limits=self.limits)

    def _terminate(self) -> None:
        behaviour = self._behaviour
        if math.isfinite(behaviour.term_takes):
            self._left, self._saving = behaviour.term_takes, behaviour.term_code is not None
            self._own_end = Outcome(Ending.EXITED, exit_code=behaviour.term_code) if self._saving else _TERMINATED

    def _speed(self) -> float:
        cap, cores = self.limits.cpus, self._behaviour.cores
        if self._paused:
            return 0.0
        return 1.0 if cap is None or cap >= cores else cap / cores

    def _ends_by_itself(self) -> float:
        speed = self._speed()
        return self._since + self._left / speed if speed else math.inf

    def _done(self, now: float) -> float:
        return (now - self._since) * self._speed()

    def _work(self, now: float) -> None:
        """Note what it got done until now, before anything changes."""
        done = self._done(now)
        self._worked, self._left, self._since = self._worked + done, max(0.0, self._left - done), now
