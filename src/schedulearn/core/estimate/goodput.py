"""How fast jobs learn whose batch size may be chosen: samples in a second times what a sample is worth.

A large batch is quick to go through, and each of its samples brings less. By how much is told by the gradient noise
scale φ, in samples, that the job reports: of a batch M a sample is worth (φ + M0) / (φ + M) of one in a batch M0. So
for each size there is a best batch, and with it the speed-up of the job at this point of its training.

Jobs of one user with the same name, image and command are of one kind: a step of them takes as long.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Batches
from schedulearn.core.domain.speedup import SpeedUp, assumed_speedup
from schedulearn.core.estimate.speedup import TRUSTED, least_relative_error

_PER_DOUBLING = 4  # batch sizes that are looked at
_NEWS = 0.1  # a step that takes so much longer or shorter than was thought is news
_NOISE_NEWS = 0.25  # the same for the noise of gradients
_KEPT = 60  # measurements of one kind that are remembered
_KINDS = 500  # that are remembered
_OVERHEAD = 0.2  # of a step that was only measured at one batch size: what does not depend on it, as assumed

_ALONE = (0, 1)  # the places among the columns of what a step takes without others: one is needed

Kind = str


@lru_cache(maxsize=1024)
def batch_sizes(batches: Batches) -> tuple[int, ...]:
    """Those of the range that are worth to be told apart, ascending."""
    ratio = batches.max / batches.min
    steps = math.ceil(_PER_DOUBLING * math.log2(ratio))
    return tuple(sorted({round(batches.min * ratio ** (i / max(1, steps))) for i in range(steps + 1)}))


class Best(NamedTuple):
    """The batch with which so many workers learn fastest."""

    goodput: float
    batch: int


class BatchTime(NamedTuple):
    """Measured: a step of jobs of one kind."""

    kind: Kind
    workers: int
    nodes: int
    batch: int
    seconds: float


@lru_cache(maxsize=2_000)  # asked for every job at every decision
def _kind(user: str, name: str, image: str | None, command: str | tuple[str, ...]) -> Kind:
    return sha256(json.dumps([user, name, image, command]).encode()).hexdigest()[:16]


def kind_of(job: Job) -> Kind:
    spec = job.spec
    return _kind(job.user, spec.name, spec.image, spec.command)


class StepTimeModel:
    """Seconds of a step, fitted to what was measured:
    a + b · batch / workers + c, if there are several workers, + d, if they are on several nodes, + e · (workers - 1).
    """

    def __init__(self, times: Iterable[BatchTime]) -> None:
        times = list(times)
        self.largest = max(one.workers for one in times)
        self.several = len({one.workers for one in times}) > 1  # sizes were measured
        self._on_one_node = max((one.workers for one in times if one.nodes == 1), default=1)
        self._weights = self._fit(times)

    def packed(self, workers: int) -> tuple[float, float]:
        """On as few nodes as were seen to do: what a step takes whatever the batch, and what each sample adds."""
        return self._parts(workers, 1 if workers <= self._on_one_node else 2)

    def placed(self, workers: int, nodes: int, batch: int) -> float:
        fixed, sample = self._parts(workers, nodes)
        return fixed + sample * batch

    def _parts(self, workers: int, nodes: int) -> tuple[float, float]:
        if not self.several:
            slower = _slower(workers)
            return self._weights[0] * slower, self._weights[1] * slower / workers
        constant, _, *others = _columns(workers, nodes, 0)
        fixed = constant * self._weights[0] + sum(w * x for w, x in zip(self._weights[2:], others, strict=True))
        return fixed, self._weights[1] / workers

    def _fit(self, times: Sequence[BatchTime]) -> Sequence[float]:
        """With the least relative error. Where one size is known, others are taken to scale as jobs usually do."""
        if self.several:
            rows = [[x / one.seconds for x in _columns(one.workers, one.nodes, one.batch)] for one in times]
            return least_relative_error(rows, _ALONE)
        seconds = {one.batch / one.workers: one.seconds / _slower(one.workers) for one in times}
        if len(seconds) == 1:
            ((local, whole),) = seconds.items()
            return (_OVERHEAD * whole, (1 - _OVERHEAD) * whole / local)
        return least_relative_error([[1.0 / whole, local / whole] for local, whole in seconds.items()], _ALONE)


def _columns(workers: int, nodes: int, batch: int) -> tuple[float, ...]:
    return (1.0, batch / workers, float(workers > 1), float(nodes > 1), workers - 1.0)


def _slower(workers: int) -> float:
    """How much longer a step takes than one of one worker with as many samples for each, as jobs usually scale."""
    return workers / assumed_speedup(workers)(workers)


class _Answer(NamedTuple):
    """For jobs of one kind, noise and range."""

    batches: tuple[int, ...]  # the best for 1, 2, … workers
    speedup: SpeedUp


class Goodputs:
    """Of all jobs. Policies ask often: answers are kept until more is learned."""

    def __init__(self, times: Iterable[BatchTime] = (), noises: Mapping[Kind, float] | None = None) -> None:
        self.noises = dict(noises or {})  # of the job of each kind that was measured last, when it had just begun
        self._noise: dict[JobId, float] = {}  # by now
        self._times: dict[Kind, dict[tuple[int, int, int], BatchTime]] = {}
        self._models: dict[Kind, StepTimeModel] = {}
        self._answers: dict[Kind, dict[tuple[Batches, int, float], _Answer]] = defaultdict(dict)
        for one in times:
            self._keep(one)

    def __iter__(self) -> Iterator[BatchTime]:
        return (one for times in self._times.values() for one in times.values())

    def learn_time(self, job: Job, nodes: int, batch: int, seconds: float) -> bool:
        """A step with the workers that it has; whether that is news."""
        one = BatchTime(kind_of(job), job.workers, nodes, batch, seconds)
        known, model = self._times.get(one.kind, {}).get(one[1:4]), self._models.get(one.kind)
        self._keep(one)
        expected = known.seconds if known else math.inf
        if known is None and model and one.workers <= model.largest:
            expected = model.placed(one.workers, nodes, batch)
        if abs(seconds - expected) <= _NEWS * expected < math.inf:
            return False
        self._models.pop(one.kind, None)
        self._answers.pop(one.kind, None)
        return True

    def learn_noise(self, job: Job, noise: float) -> bool:
        """The gradient noise scale of its training now; whether that is news."""
        known = self._noise.get(job.id)
        if known is None:
            self.noises[kind_of(job)] = noise
        elif abs(noise - known) <= _NOISE_NEWS * known:
            return False
        self._noise[job.id] = noise
        return True

    def forget(self, job: JobId) -> None:
        """It has ended."""
        self._noise.pop(job, None)

    def speedup(self, job: Job) -> SpeedUp | None:
        """Of how fast it learns, with the best batch for each size; None where nothing is known."""
        answer = self._answer(job)
        return answer.speedup if answer else None

    def batch(self, job: Job, workers: int) -> int | None:
        """The best batch with so many workers."""
        answer = self._answer(job)
        return answer.batches[min(workers, len(answer.batches)) - 1] if answer and workers else None

    def is_measured(self, job: Job) -> bool:
        """Whether the speed-up was seen, not assumed."""
        return self._answer(job) is not None and self._models[kind_of(job)].several

    def measured_up_to(self, job: Job) -> int:
        """The largest number of workers at which its kind was measured, where it was at several; else 0."""
        return self._models[kind_of(job)].largest if self.is_measured(job) else 0

    def _answer(self, job: Job) -> _Answer | None:
        kind, batches = kind_of(job), job.spec.batch
        noise = self._noise.get(job.id, self.noises.get(kind))
        if batches is None or noise is None or kind not in self._times:
            return None
        key = batches, job.shape.workers.max, noise
        known = self._answers[kind]
        if key not in known:
            known[key] = _answer(self._model(kind), *key)
        return known[key]

    def _model(self, kind: Kind) -> StepTimeModel:
        if kind not in self._models:
            self._models[kind] = StepTimeModel(self._times[kind].values())
        return self._models[kind]

    def _keep(self, one: BatchTime) -> None:
        times = self._times.pop(one.kind, {})
        times.pop(one[1:4], None)
        times[one[1:4]] = one
        if len(times) > _KEPT:
            del times[next(iter(times))]
        self._times[one.kind] = times  # the latest last
        if len(self._times) > _KINDS:
            oldest = next(iter(self._times))
            for known in (self._times, self._models, self._answers, self.noises):
                known.pop(oldest, None)


def _answer(model: StepTimeModel, batches: Batches, most: int, noise: float) -> _Answer:
    """Growth is believed up to twice the largest size that was measured."""
    sizes = batch_sizes(batches)
    believed = min(most, TRUSTED * model.largest)
    worth = {size: size * (noise + batches.min) / (noise + size) for size in sizes}

    def best(workers: int) -> Best:
        fixed, sample = model.packed(workers)
        able = [size for size in sizes if size >= workers] or sizes[-1:]  # each worker needs a sample
        return max(Best(worth[size] / (fixed + sample * size), size) for size in able)

    found = [best(n) for n in range(1, believed + 1)]
    return _Answer(tuple(one.batch for one in found), SpeedUp(one.goodput / found[0].goodput for one in found))
