"""Every published experiment, by name."""

from collections.abc import Mapping
from difflib import get_close_matches

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.experiments.flowcon import FLOWCON_EXPERIMENTS
from schedulearn.lab.experiments.others import OTHER_EXPERIMENTS
from schedulearn.lab.experiments.specon import SPECON_EXPERIMENTS
from schedulearn.lab.experiments.types import Experiment

CATALOGUE: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (*FLOWCON_EXPERIMENTS, *SPECON_EXPERIMENTS, *OTHER_EXPERIMENTS)
}


def find(name: str) -> Experiment:
    """InvalidSpec says which there are."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = get_close_matches(name, CATALOGUE, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidSpec("experiment", f"there is no experiment {name!r}{hint}", ", ".join(CATALOGUE))
