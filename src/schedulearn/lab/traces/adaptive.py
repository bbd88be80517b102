"""What is true of a job whose batch size may change, from the measured profile of its model.

Its training passes through phases, one for each epoch, in which gradients are more or less noisy. Work is counted in
seconds with the workers that its user asked for, packed, and the best batch for them in each phase.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.goodput import Best, batch_sizes
from schedulearn.lab.traces.profiles import Epoch, Profile

_TINY = 1e-30

Nodes = tuple[int, ...]  # the workers of each, ascending


class Adaptive:
    """Shared by all jobs of a model that ask for as many workers."""

    def __init__(self, profile: Profile, want: int) -> None:
        self._profile, self._want = profile, want
        self.batches = profile.batches
        self._sizes = batch_sizes(self.batches)
        self._epochs: dict[int, list[Epoch]] = {batch: profile.epochs(batch) for batch in self._sizes}
        self._able_of: dict[int, Sequence[int]] = {}  # batches that so many workers can share
        self._step_times: dict[tuple[Nodes, int], float] = {}
        self._bests: dict[tuple[int, Nodes], Best] = {}
        self._speedups: dict[int, SpeedUp] = {}
        progress = [epoch.progress for epoch in self._epochs[self.batches.min]]
        gains = (end - begin for begin, end in zip([0.0, *progress], progress, strict=False))
        seconds = [gain / self._wanted(phase) for phase, gain in enumerate(gains)]
        self.duration = sum(seconds)
        self.ends = [min(1.0, done / self.duration) for done in accumulate(seconds)]  # of phases, as parts of the work

    @cached_property
    def most(self) -> int:
        """The largest number of workers that was measured with some batch."""
        return self._profile.most_replicas(self.batches.max)

    def phase(self, part: float) -> int:
        """In which it is when so much of its work is done."""
        return min(bisect_right(self.ends, part), len(self.ends) - 1)

    def rate(self, phase: int, nodes: Nodes, batch: int) -> float:
        """Work done in a second."""
        return self._goodput(phase, nodes, batch) / self._wanted(phase)

    def placed(self, nodes: Nodes) -> float:
        """Its speed at the beginning with the best batch, against that with the workers that it wants."""
        return self.rate(0, nodes, self.best(0, nodes))

    def best(self, phase: int, nodes: Nodes) -> int:
        """The batch with which it learns fastest."""
        return self._best(phase, nodes).batch

    def speedup(self, phase: int) -> SpeedUp:
        """With the best batch for each number of workers, packed."""
        if phase not in self._speedups:
            alone = self._best(phase, (1,)).goodput
            self._speedups[phase] = SpeedUp.of(lambda n: self._best(phase, (n,)).goodput / alone, self.most)
        return self._speedups[phase]

    def fitting(self, workers: int, batch: int) -> int:
        """This batch, or the next larger one of which each worker gets what is measured."""
        able = self._able(workers)
        return next((size for size in able if size >= batch), able[-1])

    def step_time(self, nodes: Nodes, batch: int) -> float:
        key = nodes, batch
        if key not in self._step_times:
            self._step_times[key] = self._profile.placed_step_time(nodes, batch)
        return self._step_times[key]

    def noise(self, phase: int, batch: int) -> float:
        """The gradient noise scale, in samples."""
        epoch = self._epochs[batch][phase]
        return self.batches.min * epoch.grad_var / max(epoch.grad_sqr, _TINY)

    def _best(self, phase: int, nodes: Nodes) -> Best:
        key = phase, nodes
        if key not in self._bests:
            able = self._able(sum(nodes))
            self._bests[key] = max(Best(self._goodput(phase, nodes, batch), batch) for batch in able)
        return self._bests[key]

    def _wanted(self, phase: int) -> float:
        return self._best(phase, (self._want,)).goodput

    def _goodput(self, phase: int, nodes: Nodes, batch: int) -> float:
        """Steps of the smallest batch that what is done in a second is worth."""
        return self._epochs[batch][phase].gain(batch / self.batches.min) / self.step_time(nodes, batch)

    def _able(self, workers: int) -> Sequence[int]:
        known = self._able_of.get(workers)
        if known is None:
            able = [size for size in self._sizes if self._profile.most_replicas(size) >= workers]
            known = self._able_of[workers] = able or self._sizes[-1:]
        return known
