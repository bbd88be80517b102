"""Experiments that compare no jobs: they measure something of this machine, again for every seed."""

from collections.abc import Callable, Mapping

from schedulearn.lab.experiments.runner import Outcome, Told
from schedulearn.lab.experiments.runs import Run
from schedulearn.lab.experiments.types import Experiment
from schedulearn.lab.live.service import Place

Values = Mapping[str, float]  # by the argument of the measure
Measure = Callable[[str, Place, float], Values]  # of the variant with this label, at this scale


def run_measured(
    experiment: Experiment, seeds: int, scale: float, place: Place, told: Told, measure: Measure
) -> Outcome:
    runs: dict[str, list[Run]] = {variant.label: [] for variant in experiment.variants}
    for seed in range(seeds):
        for number, variant in enumerate(experiment.variants):
            values = measure(variant.label, place, scale)
            runs[variant.label].append(Run(seed, variant.label, (), 0.0, 0.0, values=values))
            told(seed * len(experiment.variants) + number + 1)
    return Outcome(experiment, seeds, scale, runs, how=f"live, {place.executor}")
