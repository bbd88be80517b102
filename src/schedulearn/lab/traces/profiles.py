"""Measured profiles of models (petuum/adaptdl): the step time on so many GPUs, and the learning curve at a batch size.

A folder MODEL/ holds, measured on nodes of 4 GPUs:
- placements.csv: step and synchronisation time by placement ("24": a node with 2 replicas and one with 4) and by the
  batch of one replica;
- scalability.csv (may be absent): the same by number of nodes and replicas, for more replicas;
- validation-B.csv: iterations so far and metric after each epoch, at the total batch size B.

Packed placements, as few nodes as possible, make the speed-up curve; the others tell what it costs to be scattered.
Between measured values everything is linear.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import ceil, inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.spec import Batches
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.traces.fields import BadRow, count, duration, number, positive
from schedulearn.lab.traces.table import Rows, Source, read_lines, read_table
from schedulearn.lab.traces.types import Problem

NODE_GPUS = 4  # of the nodes on which it was measured
MOST_BATCH = 1_000_000_000
LAST_EPOCH = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
_NOISE = ("progress", "grad_sqr", "grad_var")
LARGEST_LOCAL_BATCH = {"yolov3": 8}  # of one replica, where it is smaller than what was measured


T = TypeVar("T")


class Step(NamedTuple):
    """One measurement."""

    replicas: int
    local_batch: int  # of one replica, between two accumulations
    seconds: float  # the whole step
    sync: float  # the part of it that exchanges gradients


class Placed(NamedTuple):
    """A measurement by where the replicas were."""

    nodes: tuple[int, ...]  # replicas of each, ascending
    step: Step


class Epoch(NamedTuple):
    iterations: float  # since the start
    metric: float
    progress: float  # the same in iterations of the smallest batch
    grad_sqr: float  # of the gradient: the square of its mean, and its variance at the smallest batch
    grad_var: float

    def gain(self, scale: float) -> float:
        """What a step brings with a batch so many times the smallest, in steps with that."""
        return (self.grad_var + self.grad_sqr) / (self.grad_var / scale + self.grad_sqr)


class Profile:
    """One model. Sizes and batches that it cannot answer for raise `BadRow`."""

    def __init__(
        self, name: str, steps: Iterable[Step], epochs: dict[int, list[Epoch]], scattered: Iterable[Placed] = ()
    ) -> None:
        self.name = name
        self._scattered: dict[tuple[int, ...], list[Step]] = {}  # by replicas of each node, then as above
        for nodes, step in sorted(scattered):
            self._scattered.setdefault(nodes, []).append(step)
        self._steps: dict[int, list[Step]] = {}  # by replicas, then ascending by local batch
        for step in sorted(steps):
            self._steps.setdefault(step.replicas, []).append(step)
        self._sizes = sorted(self._steps)
        self._epochs = {batch: sorted(curve) for batch, curve in sorted(epochs.items())}
        last = min(len(curve) for curve in epochs.values())
        self._last = min(last, LAST_EPOCH.get(name, last))
        self._smallest_local = min(steps[0].local_batch for steps in self._steps.values())

    def most_replicas(self, batch: int) -> int:
        """The largest number that was measured and leaves each replica the smallest measured batch."""
        fits = (batch - 1) // (self._smallest_local - 1) if self._smallest_local > 1 else batch
        return min(self._sizes[-1], max(1, fits))

    def step_time(self, replicas: int, batch: int) -> float:
        """Seconds of one iteration of the total batch, with gradients accumulated where a GPU cannot hold its part."""
        if replicas > self.most_replicas(batch):
            raise BadRow(f"{self.name} at batch size {batch} was measured up to {self.most_replicas(batch)} replicas")
        first = self._sizes[0]
        if replicas < first:  # never measured: the speed-up up to there is taken for linear
            return self.step_time(first, batch) * first / replicas
        below, above = _around(self._sizes, replicas)
        limit = min(self._local_limit(below), self._local_limit(above))
        local = ceil(batch / replicas)
        passes = ceil(local / limit)
        small, large = (_at(self._steps[size], ceil(local / passes), passes) for size in (below, above))
        return _between(below, small, above, large, replicas)

    def gpu_use(self, replicas: int, batch: int) -> float:
        """The part of an iteration in which a GPU computes; in the rest it waits for the exchange of gradients."""
        replicas = max(self._sizes[0], replicas)
        near = self._steps[max(size for size in self._sizes if size <= replicas)]
        local = ceil(batch / replicas)
        passes = ceil(local / min(near[-1].local_batch, LARGEST_LOCAL_BATCH.get(self.name, MOST_BATCH)))
        step = min(near, key=lambda one: abs(one.local_batch - local / passes))
        return passes * (step.seconds - step.sync) / (step.seconds + (passes - 1) * (step.seconds - step.sync))

    def placed_step_time(self, nodes: tuple[int, ...], batch: int) -> float:
        """The same where the replicas of each node are known (ascending); as if packed where that was not measured."""
        replicas = sum(nodes)
        steps = self._scattered.get(nodes)
        if steps is None or replicas > self.most_replicas(batch):
            return self.step_time(min(replicas, self.most_replicas(batch)), batch)
        local = ceil(batch / replicas)
        limit = min(steps[-1].local_batch, LARGEST_LOCAL_BATCH.get(self.name, MOST_BATCH))
        passes = ceil(local / limit)
        return _at(steps, ceil(local / passes), passes)

    def speedup(self, batch: int) -> SpeedUp:
        """s(n) at a fixed total batch; s(m) = m for the smallest measured m and below."""
        first = self._sizes[0]
        base = first * self.step_time(first, batch)
        return SpeedUp.of(lambda n: base / self.step_time(n, batch), self.most_replicas(batch))

    def iterations(self, batch: int, *, by_progress: bool = False) -> float:
        """To the end of the last epoch; by progress: as many as that takes with the noise at the end of each epoch."""
        curve = self._curve(batch)
        if not by_progress:
            return curve[-1].iterations
        scale, before, iterations = batch / min(self._epochs), 0.0, 0.0
        for epoch in curve:
            iterations += (epoch.progress - before) / epoch.gain(scale)
            before = epoch.progress
        return iterations

    @property
    def batches(self) -> Batches:
        """From the smallest to the largest of which the learning was measured."""
        return Batches(min(self._epochs), max(self._epochs))

    def epochs(self, batch: int) -> list[Epoch]:
        return self._curve(batch)

    def learning(self, batch: int) -> LearningCurve:
        """The metric after each epoch. Of epochs that end at one iteration, as a table may have it, the last counts."""
        curve = self._curve(batch)
        points = {epoch.iterations / curve[-1].iterations: epoch.metric for epoch in curve}
        return LearningCurve(points.items(), self.goal)

    @property
    def goal(self) -> str:
        """Whether the metric is to rise or to fall, by what it did at the smallest batch size."""
        curve = next(iter(self._epochs.values()))
        return "min" if curve[self._last - 1].metric < curve[0].metric else "max"

    def _local_limit(self, size: int) -> int:
        return min(self._steps[size][-1].local_batch, LARGEST_LOCAL_BATCH.get(self.name, MOST_BATCH))

    def _curve(self, batch: int) -> list[Epoch]:
        sizes = list(self._epochs)
        if not sizes[0] <= batch <= sizes[-1]:
            raise BadRow(f"batch_size {batch}: {self.name} was measured from {sizes[0]} to {sizes[-1]}")
        low, high = _around(sizes, batch)
        pairs = zip(self._epochs[low][: self._last], self._epochs[high][: self._last], strict=True)
        return [Epoch(*(_between(low, a, high, b, batch) for a, b in zip(*pair, strict=True))) for pair in pairs]


class PlacedSpeed:
    """How fast a job of this model is where its replicas are, against one replica. Asked at every start: kept."""

    __slots__ = ("_batch", "_known", "_one", "_profile")

    def __init__(self, profile: Profile, batch: int, one: float) -> None:
        """`one`: seconds of an iteration with one replica."""
        self._profile, self._batch, self._one = profile, batch, one
        self._known: dict[tuple[int, ...], float] = {}

    def __call__(self, nodes: tuple[int, ...]) -> float:
        if nodes not in self._known:
            self._known[nodes] = self._one / self._profile.placed_step_time(nodes, self._batch)
        return self._known[nodes]


class Profiles:
    """The profiles of a folder, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []  # rows of profiles that cannot be used
        self._known: dict[str, Profile | BadRow] = {}

    def get(self, model: str) -> Profile:
        if model not in self._known:
            try:
                self._known[model] = self._read(model)
            except BadRow as error:  # kept too: many rows may ask for a model that is not there
                self._known[model] = error
        profile = self._known[model]
        if isinstance(profile, BadRow):
            raise BadRow(str(profile))
        return profile

    def _read(self, model: str) -> Profile:
        if not model or not model.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise BadRow(f"application is no name of a model: {model!r}")
        folder = self.folder / model
        if not folder.is_dir():
            raise BadRow(f"no profile of {model}: there is no {folder}")
        placements = folder / "placements.csv"
        if not placements.is_file():
            raise BadRow(f"no profile of {model}: there is no {placements}")
        placed = self._keep(placements, _placements(placements))
        packed = [one.step for one in placed if _is_packed(one.nodes)]
        known = {step.replicas for step in packed}
        scalability = folder / "scalability.csv"
        if scalability.is_file():
            more = self._keep(scalability, _scalability(scalability))
            packed += [step for step in more if step.replicas not in known]
        epochs = {batch: curve for batch, path in _validations(folder) if (curve := self._keep(path, _epochs(path)))}
        if not packed or not epochs:
            what = "packed placement in placements.csv" if not packed else "epoch in validation-B.csv"
            raise BadRow(f"no profile of {model}: there is no usable {what} of {folder}")
        return Profile(model, packed, epochs, [one for one in placed if not _is_packed(one.nodes)])

    def _keep(self, path: Path, rows: Rows[T | None]) -> list[T]:
        made, problems = rows
        self.problems += [Problem(problem.line, f"in {path}: {problem.text}") for problem in problems]
        return [one for one in made if one is not None]


def _placements(path: Path) -> Rows[Placed | None]:
    def step(_line: int, fields: Sequence[str]) -> Placed | None:
        placement, *times = fields
        nodes = _nodes(placement.strip())
        return Placed(tuple(sorted(nodes)), _step(sum(nodes), *times))

    return read_table(Source(path, read_lines(path)), ("placement", "local_bsz", "step_time", "sync_time"), step)


def _scalability(path: Path) -> Rows[Step | None]:
    def step(_line: int, fields: Sequence[str]) -> Step | None:
        nodes, text, *times = fields
        replicas = count("num_replicas", text)
        return _step(replicas, *times) if count("num_nodes", nodes) == ceil(replicas / NODE_GPUS) else None

    columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
    return read_table(Source(path, read_lines(path)), columns, step)


def _step(replicas: int, local: str, seconds: str, sync: str) -> Step:
    step = Step(
        replicas, count("local_bsz", local, MOST_BATCH), positive("step_time", seconds), duration("sync_time", sync)
    )
    if step.sync > step.seconds:
        raise BadRow(f"sync_time {sync} is longer than the step_time {seconds} that it is part of")
    return step


def _epochs(path: Path) -> Rows[Epoch | None]:
    def epoch(_line: int, fields: Sequence[str]) -> Epoch | None:
        iteration, metric, *noise = fields
        iterations = positive("iteration", iteration)
        told = zip(_NOISE, noise, (iterations, 1.0, 0.0), strict=True)  # what is not told: no noise
        known = (number(name, text, inf) if text else none for name, text, none in told)
        return Epoch(iterations, number("metric", metric), *known)

    return read_table(Source(path, read_lines(path)), ("iteration", "metric"), epoch, optional=_NOISE)


def _validations(folder: Path) -> list[tuple[int, Path]]:
    found = ((path.stem.removeprefix("validation-"), path) for path in folder.glob("validation-*.csv"))
    return sorted((int(batch), path) for batch, path in found if batch.isdecimal())


def _nodes(placement: str) -> list[int]:
    if not placement.isdecimal() or "0" in placement:
        raise BadRow(f"placement is not a row of digits, the replicas of each node: {placement!r}")
    return [int(digit) for digit in placement]


def _is_packed(nodes: Sequence[int]) -> bool:
    """As few nodes as possible: all full but one, whichever that is."""
    full, rest = divmod(sum(nodes), NODE_GPUS)
    return sorted(nodes) == sorted([NODE_GPUS] * full + [rest] * (rest > 0))


def _at(steps: Sequence[Step], local: int, passes: int) -> float:
    """Seconds of an iteration with so many passes over this batch of one replica."""
    batches = [step.local_batch for step in steps]
    low, high = (steps[batches.index(batch)] for batch in _around(batches, local))
    seconds = _between(low.local_batch, low.seconds, high.local_batch, high.seconds, local)
    sync = _between(low.local_batch, low.sync, high.local_batch, high.sync, local)
    return seconds + (passes - 1) * (seconds - sync)  # only the last pass exchanges gradients


def _around(known: Sequence[int], wanted: int) -> tuple[int, int]:
    """The nearest known values on both sides; twice the same at the ends and where it is known."""
    at = bisect_left(known, wanted)
    if at == len(known):
        return known[-1], known[-1]
    if known[at] == wanted or at == 0:
        return known[at], known[at]
    return known[at - 1], known[at]


def _between(x0: float, y0: float, x1: float, y1: float, x: float) -> float:
    return y0 if x0 == x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
