"""FlowCon's experiments: jobs that share one machine. The baseline has no limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from schedulearn.core.policies.share.flowcon import FULL, ONE_AND_AN_NTH, PROPORTIONAL
from schedulearn.lab.experiments.models import FLOWCON
from schedulearn.lab.experiments.types import OURS, OURS_TOLD, Experiment, Figure, Machines, Published, Variant
from schedulearn.lab.experiments.workloads import At, Trainings, Within

_SOURCE = "FlowCon"
_MACHINE = Machines(1, cores=8.0)
_NA = Variant("no limits", "fifo", {"share": "fair"})
_MAKESPAN = (
    "A share that leaves no core idle cannot change when a busy machine has done all its work. The published 1 to 5 % "
    "can only be what contention costs on the real machine, which is not modelled here."
)
_CURVES = (
    "Curves of models of which nothing is published are assumed, and the published settings contradict themselves by "
    "up to 8 points where they repeat."
)
_LONGEST = (
    "LSTM-CFC lasts longest though it uses a fifth of the machine: nothing can make it faster, but a limit below that "
    "fifth makes it, and with it the makespan, slower."
)
_DRAWN = "The published run is one draw of arrivals and models that is not known; ours is the mean over seeds."


@dataclass(frozen=True, slots=True)
class Edition:
    """One reading of FlowCon's rule. The text leaves open what β is, and what a growing container may use."""

    preset: str
    beta: float | str = 2.0
    growing: str = FULL

    @property
    def name(self) -> str:
        if self.preset != "flowcon":
            return self.preset
        return f"flowcon beta={self.beta}" + (f" {self.growing}" if self.growing != FULL else "")

    def with_setting(self, alpha: float, itval: float) -> Variant:
        return Variant(
            f"{self.name}, {100 * alpha:g} %, {itval:g} s",
            self.preset,
            params={"alpha": alpha, "itval": itval, "itval_cap": 320.0, "beta": self.beta, "growing": self.growing},
            times=("itval", "itval_cap"),
            rates=("alpha",),
        )


RELEASED = Edition("flowcon", ONE_AND_AN_NTH)  # β of the code that was released; it comes closest to the figures
PRINTED = Edition("flowcon", 2)  # 0.25 of the machine for the slower of two, as the text says
CALM = Edition("flowcon-calm", 2)
OF_ALL = (
    PRINTED,
    Edition("flowcon", 2, PROPORTIONAL),
    RELEASED,
    Edition("flowcon", ONE_AND_AN_NTH, PROPORTIONAL),
    CALM,
)
_COMPARED = (RELEASED, PRINTED, CALM)


def _settings(*settings: tuple[float, float]) -> list[Variant]:
    return [edition.with_setting(*setting) for edition in _COMPARED for setting in settings]


def _figures(measure: str, alpha: float, itval: float, published: Published, why: str = "") -> list[Figure]:
    """What was published of a setting stands beside both readings."""
    variants = [edition.with_setting(alpha, itval) for edition in (RELEASED, PRINTED)]
    return [Figure(measure, variant.label, published, why) for variant in variants]


_FIXED_3 = Trainings("fixed-3", FLOWCON, ("VAE", "MNIST-P", "MNIST-T"), At((0.0, 40.0, 80.0)), 3)
_BASE_3 = (
    Figure("makespan", _NA.label, 394.0, "Calibrated on it."),
    Figure("job:MNIST-T", _NA.label, 84.7, "Calibrated on it."),
    Figure("overlap", _NA.label, 84.7, "Calibrated on it."),
)
_MAKESPANS_3 = {20.0: 386.1, 30.0: 372.4, 40.0: 384.8, 50.0: 389.0, 60.0: 388.1}


def _sweep(name: str, about: str, published: dict[tuple[float, float], float]) -> Experiment:
    return Experiment(
        name,
        about,
        _SOURCE,
        _FIXED_3,
        _MACHINE,
        (_NA, *_settings(*published), OURS, OURS_TOLD),
        (
            *_BASE_3,
            *chain.from_iterable(_figures("job change:MNIST-T", *at, value) for at, value in published.items()),
        ),
        why=_CURVES,
    )


FLOWCON_EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "fixed-3",
        "VAE at 0 s, MNIST on PyTorch at 40 s, MNIST on TensorFlow at 80 s; threshold 5 %, five intervals.",
        _SOURCE,
        _FIXED_3,
        _MACHINE,
        (_NA, *_settings(*((0.05, itval) for itval in _MAKESPANS_3)), OURS, OURS_TOLD),
        (
            *_BASE_3,
            *_figures("job:MNIST-T", 0.05, 30.0, 57.7),
            *_figures("job change:MNIST-T", 0.05, 30.0, -31.9),
            *_figures("overlap", 0.05, 20.0, 59.4),
            *chain.from_iterable(_figures("makespan", 0.05, i, s, _MAKESPAN) for i, s in _MAKESPANS_3.items()),
        ),
        why=_CURVES,
    ),
    _sweep(
        "fixed-3-intervals",
        "The same jobs; threshold 10 %, intervals of 20 to 60 s.",
        {(0.1, 20.0): -26.2, (0.1, 30.0): -32.4, (0.1, 40.0): -14.3, (0.1, 50.0): -15.3, (0.1, 60.0): -3.1},
    ),
    _sweep(
        "fixed-3-thresholds",
        "The same jobs; interval 20 s, thresholds of 1 to 15 %.",
        {(0.01, 20.0): -32.1, (0.03, 20.0): -31.0, (0.05, 20.0): -21.4, (0.1, 20.0): -19.0, (0.15, 20.0): -19.8},
    ),
    Experiment(
        "random-5",
        "LSTM-CFC, VAE, VAE on TensorFlow, MNIST and GRU, in this order at random times within 200 s.",
        _SOURCE,
        Trainings("random-5", FLOWCON, ("LSTM-CFC", "VAE", "VAE-T", "MNIST-P", "GRU"), Within(200.0), 5),
        _MACHINE,
        (_NA, *_settings((0.03, 30.0), (0.03, 60.0), (0.05, 30.0), (0.05, 60.0)), OURS, OURS_TOLD),
        (
            Figure("job:MNIST-P", _NA.label, 422.5, "Calibrated on it."),
            Figure("job:GRU", _NA.label, 489.4, "Calibrated on it."),
            *_figures("best job", 0.03, 30.0, -42.06),
            *_figures("faster", 0.03, 30.0, 4.0),
            *_figures("faster", 0.03, 60.0, 5.0),
            *_figures("faster", 0.05, 30.0, 4.0),
            *_figures("faster", 0.05, 60.0, 4.0),
            *_figures("job change:MNIST-P", 0.05, 60.0, 11.8),
            *_figures("job change:GRU", 0.05, 60.0, -19.0),
            *_figures("job change:GRU", 0.03, 30.0, -17.92),
            *_figures("makespan change", 0.03, 30.0, (-5.0, -1.0), _LONGEST),
        ),
        why=_DRAWN,
    ),
    Experiment(
        "random-10",
        "Ten jobs of eight models at random within 200 s; threshold 10 %, interval 20 s.",
        _SOURCE,
        Trainings("random-10", FLOWCON, tuple(FLOWCON), Within(200.0), 10, shuffled=True),
        _MACHINE,
        (_NA, *_settings((0.1, 20.0)), OURS, OURS_TOLD),
        (
            Figure("makespan", _NA.label, 1384.9, "Calibrated on it."),
            *_figures("makespan", 0.1, 20.0, 1350.7, _MAKESPAN),
            *_figures("faster", 0.1, 20.0, 9.0),
            *_figures("best job", 0.1, 20.0, -41.2),
            *_figures("worst job", 0.1, 20.0, 1.1),
        ),
        why=_DRAWN,
    ),
    Experiment(
        "random-15",
        "Fifteen jobs of eight models at random within 200 s; the setting of random-10, as none was published.",
        _SOURCE,
        Trainings("random-15", FLOWCON, tuple(FLOWCON), Within(200.0), 15, shuffled=True),
        _MACHINE,
        (_NA, *_settings((0.1, 20.0)), OURS, OURS_TOLD),
        (
            Figure("makespan", _NA.label, 1980.1, "Calibrated on it."),
            *_figures("makespan", 0.1, 20.0, 1950.9, _MAKESPAN),
            *_figures("faster", 0.1, 20.0, 11.0),
            *_figures("best job", 0.1, 20.0, -11.9),
            *_figures("worst job", 0.1, 20.0, 5.7),
        ),
        why=_DRAWN,
    ),
)
