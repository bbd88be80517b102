"""Runs any experiment live: trainings under several policies, or a measurement of its own."""

from collections.abc import Mapping

from schedulearn.experiments.runner import Outcome, Told
from schedulearn.experiments.types import Experiment
from schedulearn.live.measured import Measure, run_measured
from schedulearn.live.runner import Say, check_torch, run_policies
from schedulearn.live.saving import overhead
from schedulearn.live.service import Place
from schedulearn.live.subscription import throughput

_MEASURED: Mapping[str, Measure] = {"subscription": throughput, "saving": overhead}


def run_live(experiment: Experiment, seeds: int, scale: float, place: Place, told: Told, say: Say) -> Outcome:
    """LiveError says why it cannot go on. Whatever was started is stopped then, and with Ctrl-C."""
    check_torch(place)
    if measure := _MEASURED.get(experiment.name):
        return run_measured(experiment, seeds, scale, place, told, measure)
    return run_policies(experiment, seeds, scale, place, told, say)
