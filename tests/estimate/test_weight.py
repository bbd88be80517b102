"""How heavy a job is, and hints when it asks for much more or less than its like."""

import pytest

from schedulearn.core.estimate.history import Finished
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.estimate.weight import Asked, Weight, hint, weigh

GB = 1e9
USED = [Finished("ann", "mnist", 2, s, cpus=c, memory=m * GB) for s, c, m in ((600, 1, 1), (900, 2, 2), (1200, 3, 3))]


def test_weight_counts_gpus_or_else_cores() -> None:
    hour = Estimate(1800, 3600, 7200)
    assert weigh(hour, workers=2, gpus=4, cpus=8) == Weight(Estimate(14400, 28800, 57600), "GPU-seconds")
    assert weigh(hour, workers=2, gpus=0, cpus=0.5) == Weight(Estimate(1800, 3600, 7200), "core-seconds")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            Asked(time_limit=8 * 3600),
            "It asks for a time limit of 8 h, far more than the 20 min that 3 jobs like it used at most.",
        ),
        (
            Asked(time_limit=60),
            "It asks for a time limit of 1 min, less than most of 3 jobs like it used "
            "(half of them 15 min or more): it may be stopped early.",
        ),
        (
            Asked(memory=64 * GB, gpus=16),
            "It asks for 64 GB of memory, far more than the 3 GB that 3 jobs like it used at most; "
            "and for 16 GPUs, far more than the 2 GPUs that 3 jobs like it used at most.",
        ),
        (
            Asked(cpus=0.25),
            "It asks for 0.25 cores, far less than most of 3 jobs like it used (half of them 2 cores or more).",
        ),
        (Asked(time_limit=4800, gpus=8, cpus=12, memory=12 * GB), None),
        (Asked(time_limit=900, gpus=1, cpus=0.5, memory=2 * GB), None),
        (Asked(), None),
    ],
)
def test_hints(asked: Asked, expected: str | None) -> None:
    assert hint(asked, USED) == expected


def test_too_little_is_known() -> None:
    assert hint(Asked(time_limit=1e9), USED[:2]) is None
    unmeasured = [Finished("ann", "mnist", 0, 60.0)] * 5
    assert hint(Asked(memory=1e12, cpus=64, gpus=1), unmeasured) is None


def test_what_was_not_measured_is_compared_with_what_was_asked_for() -> None:
    asked_for = [Finished("ann", "mnist", 0, 60.0, {"cpus": 2, "memory": m * GB}) for m in (2, 4, 4)]
    assert hint(Asked(memory=64 * GB), asked_for) == (
        "It asks for 64 GB of memory, far more than the 4 GB that 3 jobs like it asked for at most."
    )
    assert hint(Asked(memory=2 * GB, cpus=0.25), asked_for) == (
        "It asks for 0.25 cores, far less than most of 3 jobs like it asked for (half of them 2 cores or more)."
    )
