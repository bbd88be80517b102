"""What an experiment is: a workload, machines, policies, and what was published about them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedulearn.core.domain.node import Node
from schedulearn.lab.experiments.workloads import Jobs
from schedulearn.lab.sim.cluster import make_node


@dataclass(frozen=True, slots=True)
class Machines:
    count: int
    cores: float = 0.0
    gpus: int = 0
    memory: float = 0.0  # bytes

    def nodes(self) -> list[Node]:
        return [make_node(i, self.gpus, f"worker-{i + 1}", self.cores, self.memory) for i in range(self.count)]


@dataclass(frozen=True, slots=True)
class Variant:
    """One policy with its parameters."""

    label: str
    preset: str
    stages: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    times: Sequence[str] = ()  # parameters that are seconds
    rates: Sequence[str] = ()  # parameters that are something per second
    seeds: Sequence[str] = ()  # parameters that are the seed of the run: with other jobs come other lots
    announced: bool = False  # do jobs say how many steps they take?
    saves: bool = True  # a job that is stopped goes on where it was; else it begins anew

    def params_of(self, seed: int, scale: float) -> dict[str, Any]:
        """The parameters for a run in which everything takes `scale` times as long."""
        factors = dict.fromkeys(self.times, scale) | dict.fromkeys(self.rates, 1 / scale)
        scaled = {key: value * factors[key] if key in factors else value for key, value in self.params.items()}
        return scaled | dict.fromkeys(self.seeds, seed)


# Our own policy: the same in every experiment. The parameters are the defaults, written out so that they can be scaled.
OURS = Variant(
    "schedulearn",
    "schedulearn",
    params={"look": 5.0, "balance_every": 30.0, "balance_rest": 60.0},
    times=("look", "balance_every", "balance_rest"),
)
OURS_TOLD = replace(OURS, label=f"{OURS.label}, steps announced", announced=True)


Published = float | tuple[float, float] | None  # None: no number was


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that is measured of a policy, and what was published about it."""

    measure: str  # a key of `measures.MEASURES`, with an argument after a colon
    variant: str  # the policy's label
    published: Published = None
    why: str = ""  # why ours differs, where the experiment's own words are not enough


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    about: str
    source: str  # who published it
    jobs: Jobs | None  # None: it can only be run live
    machines: Machines
    variants: Sequence[Variant]  # the baseline first: neither limits nor moves
    figures: Sequence[Figure]
    why: str = ""  # why our figures differ from the published ones
    restart_cost: float = 0.0
    locality_penalty: float = 0.0
    live_only: str = ""  # why it cannot be simulated

    @property
    def baseline(self) -> Variant:
        return self.variants[0]

    def only(self, policies: Collection[str]) -> "Experiment":
        """With the baseline and these alone, by label or preset."""
        kept = [one for one in self.variants if one is self.baseline or {one.label, one.preset} & set(policies)]
        labels = {one.label for one in kept}
        return replace(self, variants=kept, figures=[one for one in self.figures if one.variant in labels])
