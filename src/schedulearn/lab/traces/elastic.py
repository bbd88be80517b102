"""What if the jobs of a trace that says nothing of sizes could change theirs? Curves as they were measured.

The shapes are those of Pollux's profiles (petuum/adaptdl, Apache-2.0): six models at the batch sizes at which its
workloads run them, the global batch being fixed, on nodes of four GPUs. A job gets one of those that still use at
least half of each GPU at the size its user asked for, as nobody asks for what brings nothing; its duration at that
size is the recorded one. Jobs of one name and size scale alike.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.lab.traces.types import TraceJob, Workload

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_SHAPES: dict[str, tuple[float, ...]] = {  # speed at each of these sizes, against one worker
    "bert, batch 384": (1.00, 2.00, 3.00, 4.00, 4.57, 5.62, 8.78, 10.45, 11.88, 14.21),
    "cifar10, batch 2048": (1.00, 1.68, 2.57, 3.56, 5.22, 5.40, 7.41, 9.09, 6.90, 6.33),
    "cifar10, batch 4096": (1.00, 1.68, 2.72, 3.55, 5.47, 6.25, 9.85, 12.56, 12.55, 12.46),
    "deepspeech2, batch 320": (1.00, 1.96, 3.00, 3.87, 5.54, 6.57, 7.29, 7.99, 8.03, 8.92),
    "deepspeech2, batch 640": (1.00, 1.97, 3.00, 3.92, 6.00, 7.44, 11.24, 13.75, 15.39, 14.62),
    "imagenet, batch 3200": (1.00, 1.98, 2.79, 3.69, 5.72, 7.29, 10.82, 14.11, 19.80, 21.25),
    "imagenet, batch 6400": (1.00, 1.98, 2.78, 3.70, 5.78, 7.31, 11.17, 14.16, 20.63, 27.00),
    "ncf, batch 32768": (1.00, 0.80, 0.78, 1.20, 0.63, 0.50, 0.74, 0.69, 0.62, 0.56),
    "yolov3, batch 64": (1.00, 1.95, 2.31, 2.94, 1.28, 1.58, 2.08, 2.21),
}
_EFFICIENT = 0.5  # of each GPU is still of use at the size that its user asked for
_LARGEST = _SIZES[-1]


def made_elastic(workload: Workload, seed: int = 0) -> Workload:
    """Jobs without a range may have from one to twice as many workers as they ask for."""
    return replace(workload, jobs=[_elastic(job, seed) for job in workload.jobs])


def _elastic(job: TraceJob, seed: int) -> TraceJob:
    if job.workers or not job.gpus:
        return job
    rng = random.Random(f"{seed} {job.name or job.label} {job.gpus}")
    most = 2 * job.gpus
    return replace(job, workers=(1, most), speedup=job.speedup or _curve(job.gpus, most, rng))


def _curve(asked: int, most: int, rng: random.Random) -> SpeedUp:
    # What is larger than all that was measured scales as the largest did: all sizes are stretched.
    stretch = max(1.0, asked / _LARGEST)
    able = [shape for shape in _SHAPES.values() if _speed(shape, asked / stretch) >= _EFFICIENT * asked / stretch]
    shape = rng.choice(able)
    return SpeedUp.of(lambda n: n if n <= stretch else stretch * _speed(shape, n / stretch), most)


def _speed(shape: Sequence[float], size: float) -> float:
    """Between measured sizes a straight line; beyond the last nothing is gained."""
    for (small, low), (large, high) in pairwise(zip(_SIZES, shape, strict=False)):
        if size <= large:
            return low + (high - low) * (size - small) / (large - small)
    return shape[-1]
