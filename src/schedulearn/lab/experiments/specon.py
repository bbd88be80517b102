"""SpeCon's experiments: jobs on several workers. The baseline places as Kubernetes does, and moves no job."""

from collections.abc import Sequence
from dataclasses import replace

from schedulearn.lab.experiments.models import SPECON
from schedulearn.lab.experiments.types import OURS, OURS_TOLD, Experiment, Figure, Machines, Variant
from schedulearn.lab.experiments.workloads import Every, Trainings, Within

_SOURCE = "SpeCon"
_FOUR, _EIGHT = (Machines(count, cores=16.0, memory=64.0 * 2**30) for count in (4, 8))
_LOTS = ("seed",)
_DS = Variant("k8s-default", "k8s-default", seeds=_LOTS)
_PROCON = Variant("procon", "procon")
_PROCON_TOLD = replace(_PROCON, label="procon, steps announced", announced=True)
_COST = 3.5  # seconds of a move: below 5 s was published, with a standard deviation of 1.43 s
_UNEVEN = (
    "How uneven the baseline's lots were is not known, and it decides what there is to gain. Ours is the mean of many."
)
_SCALE = (
    "On our scale a loss changes by 1 % in an interval only near the end of a job, and then hardly a worker holds two "
    "others that still learn. On what scale the source's α counts is not known: docs/results.md has fixed-20 by scale "
    "and by baseline."
)
_DRAWN = "The published run is one draw of arrivals and models that is not known; ours is the mean over seeds."


def _setting(alpha: float, interval: float) -> Variant:
    return Variant(
        f"specon {alpha:g}, {interval:g} s",
        "specon",
        params={"specon_alpha": alpha, "specon_interval": interval},
        times=("specon_interval",),
        seeds=_LOTS,
    )


_USUAL = _setting(0.01, 30.0)
FIXED_20 = Trainings("fixed-20", SPECON, ("VAE",), Every(50.0), 20, times=0.93)
# Of random-20 only the first job's time under the baseline was published, 461.2 s.
_RANDOM_20 = Trainings("random-20", SPECON, ("VAE",), Within(300.0), 20, times=0.86)


def _mixed(count: int, within: float, times: float) -> Trainings:
    return Trainings(f"mixed-{count}", SPECON, tuple(SPECON), Within(within), count, shuffled=True, times=times)


def _sweep(name: str, about: str, published: dict[tuple[float, float], float]) -> Experiment:
    settings = [_setting(alpha, interval) for alpha, interval in published]
    figures = [
        Figure("average change", setting.label, value)
        for setting, value in zip(settings, published.values(), strict=True)
    ]
    return Experiment(
        name,
        about,
        _SOURCE,
        _RANDOM_20,
        _FOUR,
        (_DS, *settings, OURS, OURS_TOLD),
        figures,
        why=_UNEVEN,
        restart_cost=_COST,
    )


SPECON_EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "fixed-20",
        "Twenty VAEs, one every 50 s, on 4 workers.",
        _SOURCE,
        FIXED_20,
        _FOUR,
        (_DS, _USUAL, _PROCON, OURS, _PROCON_TOLD, OURS_TOLD),
        (
            Figure("average", _DS.label, 275.2, "Calibrated on it."),
            Figure("makespan", _DS.label, 1260.0, "Calibrated on it."),
            Figure("average", _USUAL.label, 234.7),
            Figure("average change", _USUAL.label, -14.7),
            Figure("best job", _USUAL.label, -37.6),
            Figure("faster", _USUAL.label, 11.0),
            Figure("makespan", _USUAL.label, 1190.0),
        ),
        why=_SCALE,
        restart_cost=_COST,
    ),
    _sweep(
        "random-20-intervals",
        "Twenty VAEs at random within 300 s on 4 workers; threshold 0.05, intervals of 20 to 30 s.",
        {(0.05, 20.0): -1.1, (0.05, 25.0): -5.2, (0.05, 30.0): -8.0},
    ),
    _sweep(
        "random-20-thresholds",
        "The same jobs; interval 30 s, thresholds of 0.01 to 0.1.",
        {(0.01, 30.0): -7.2, (0.05, 30.0): -3.2, (0.1, 30.0): -9.5},
    ),
    Experiment(
        "mixed-20",
        "Twenty jobs of 5 models on 2 frameworks at random within 300 s on 4 workers.",
        _SOURCE,
        _mixed(20, 300.0, 1.145),
        _FOUR,
        (_DS, _USUAL, _PROCON, OURS, _PROCON_TOLD, OURS_TOLD),
        (
            Figure("makespan", _DS.label, 1421.0, "Calibrated on it."),
            Figure("average change", _USUAL.label, -13.6),
            Figure("makespan", _USUAL.label, 1070.0),
            Figure("makespan change", _USUAL.label, -24.7),
            Figure("faster", _USUAL.label, 15.0),
            Figure("best job", _USUAL.label, -31.6),
        ),
        why=f"{_DRAWN} {_UNEVEN}",
        restart_cost=_COST,
    ),
    Experiment(
        "mixed-30",
        "Thirty jobs of 5 models on 2 frameworks at random within 300 s on 4 workers.",
        _SOURCE,
        _mixed(30, 300.0, 0.99),
        _FOUR,
        (_DS, _USUAL, _PROCON, OURS, _PROCON_TOLD, OURS_TOLD),
        (
            Figure("average", _DS.label, 799.5, "Calibrated on it."),
            Figure("makespan", _DS.label, 1640.0, "Calibrated on it."),
            Figure("average", _USUAL.label, 752.6),
            Figure("average change", _USUAL.label, -5.9),
            Figure("makespan", _USUAL.label, 1370.0),
            Figure("makespan change", _USUAL.label, -16.4),
            Figure("faster", _USUAL.label, 20.0),
        ),
        why=f"{_DRAWN} {_UNEVEN}",
        restart_cost=_COST,
    ),
    Experiment(
        "mixed-50",
        "Fifty jobs of 5 models on 2 frameworks at random within 1200 s on 8 workers.",
        _SOURCE,
        _mixed(50, 1200.0, 1.485),
        _EIGHT,
        (_DS, _USUAL, _PROCON, OURS, _PROCON_TOLD, OURS_TOLD),
        (
            Figure("average", _DS.label, 596.3, "Calibrated on it."),
            Figure("makespan", _DS.label, 2070.0, "Not calibrated on: it follows from the average."),
            Figure("average", _USUAL.label, 553.0),
            Figure("average change", _USUAL.label, -7.2),
            Figure("makespan", _USUAL.label, 1840.0),
            Figure("makespan change", _USUAL.label, -11.1),
            Figure("faster", _USUAL.label, 30.0),
            Figure("best job", _USUAL.label, -41.5),
        ),
        why=f"{_DRAWN} {_UNEVEN}",
        restart_cost=_COST,
    ),
)
