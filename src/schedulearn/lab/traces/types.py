"""What every reader gives: jobs with their true durations, and what was wrong with the file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.spec import Target
from schedulearn.core.domain.speedup import SpeedUp

if TYPE_CHECKING:
    from schedulearn.lab.traces.adaptive import Adaptive

PlacedSpeed = Callable[[tuple[int, ...]], float]  # by the workers of each node, ascending; one worker: 1


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Its serial number is its place in the workload, which is the order of the file."""

    label: str  # the trace's own id
    arrival: float  # seconds on the trace's own clock
    duration: float  # true seconds of running with `gpus` workers of one GPU each
    gpus: int  # as its user asked
    user: str = ""
    name: str = ""  # model or application
    command: tuple[str, ...] = ()  # what runs, where the trace tells: jobs that run the same are alike
    deadline: float | None = None  # seconds on the same clock as `arrival`
    workers: tuple[int, int] | None = None  # smallest and largest number of workers; None: the trace does not say
    speedup: SpeedUp | None = None  # measured; None: the assumed one
    placed: PlacedSpeed | None = None  # what it is where its workers are; None: see `sim.locality`
    model_bytes: float | None = None  # of the gradients that its workers exchange in each step; None: not known
    step_seconds: float | None = None  # of a step with the workers it asked for, on one node; None: not known
    gpu_use: float | None = None  # the part of each GPU that it keeps busy when it is alone there; None: not known
    cpus: float = 0.0  # cores that each worker keeps busy when it is alone; 0: cores do not matter to it
    learning: LearningCurve | None = None  # what it reports as it gets on; None: not known
    target: Target | None = None  # what its metric should reach; None, or without a learning curve: nothing
    one_node: bool = False  # all its workers must be on one node
    announced: float | None = None  # steps its user said it takes, as a part of those it does; None: nothing was said
    batch: int = 0  # size that its user asked for, where the scheduler may choose another (`adaptive`)
    adaptive: "Adaptive | None" = None  # how fast it learns then, instead of `speedup` and `placed`

    @property
    def step(self) -> float:
        """Seconds of a step with `gpus` workers: each point of its curve is one. Without a curve it reports none."""
        return self.duration / len(self.learning) if self.learning else 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that cannot be used."""

    line: int  # counted from 1, the header included
    text: str  # what is wrong with it


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    jobs: Sequence[TraceJob]  # in the order of the file
    problems: Sequence[Problem] = field(default_factory=tuple)
