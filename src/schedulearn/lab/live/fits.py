"""Which experiments fit one machine, and why the others do not."""

from schedulearn.lab.experiments.types import Experiment
from schedulearn.lab.experiments.workloads import Trainings
from schedulearn.lab.live.programs import NETWORKS


def why_not(experiment: Experiment) -> str:
    """Why it cannot be run live; empty: it can."""
    machines = experiment.machines
    if experiment.jobs is None:
        return ""
    if machines.gpus:
        return f"its jobs need {machines.count} × {machines.gpus} GPUs, and a live run has the cores of this machine"
    if machines.count > 1:
        return f"it needs {machines.count} machines, and a live run has this one"
    if not isinstance(experiment.jobs, Trainings):
        return "its jobs ask for whole cores of a large machine, and a live run shares out those of this one"
    return ""


def networks_of(experiment: Experiment) -> list[str]:
    """Those that are trained in it, in order."""
    assert isinstance(experiment.jobs, Trainings)
    return list(dict.fromkeys(NETWORKS[kind] for kind in experiment.jobs.kinds))
