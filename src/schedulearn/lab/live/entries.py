"""Runs any experiment live: trainings under several policies, or a measurement of its own."""

from collections.abc import Mapping

from schedulearn.lab.experiments.runner import Outcome, Told
from schedulearn.lab.experiments.types import Experiment
from schedulearn.lab.live.measured import Measure, run_measured
from schedulearn.lab.live.runner import Say, check_torch, run_policies
from schedulearn.lab.live.saving import overhead
from schedulearn.lab.live.service import Place
from schedulearn.lab.live.subscription import throughput

_MEASURED: Mapping[str, Measure] = {"subscription": throughput, "saving": overhead}


def run_live(experiment: Experiment, seeds: int, scale: float, place: Place, told: Told, say: Say) -> Outcome:
    """LiveError says why it cannot go on. Whatever was started is stopped then, and with Ctrl-C."""
    check_torch(place)
    if measure := _MEASURED.get(experiment.name):
        return run_measured(experiment, seeds, scale, place, told, measure)
    return run_policies(experiment, seeds, scale, place, told, say)
