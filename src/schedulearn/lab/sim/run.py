"""A study: one workload on one cluster under one or several policies. All that `simulate` and `compare` need.

`prepare` turns a request, as it was written, into a `Study`, or says what is wrong with it before anything runs.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.domain.units import parse_duration
from schedulearn.core.policies.catalogue import plugins
from schedulearn.core.policies.catalogue.presets import PLAIN_PRESET, PRESETS, build_policy, params_of
from schedulearn.core.policies.catalogue.registry import STAGES
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.sim.cluster import BANDWIDTH, nodes_from_list, parse_cluster, with_bandwidth
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.facts import OracleFacts, SimulatedFacts
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.replay import workload_of
from schedulearn.lab.traces.elastic import made_elastic
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.synthetic import is_synthetic
from schedulearn.lab.traces.types import Workload

_WITH_CORES = "such as 2x8c, or a YAML file whose nodes have cpus"
BadRequest = InvalidSpec  # for the verbs, which know nothing of the domain
Progress = Callable[[int], None]  # told how many jobs have completed


class PolicyFailed(SchedulearnError):
    """A policy raised an error, or wanted what cannot be. `trace` is where, for who wrote it."""

    def __init__(self, policy: str, problem: str, trace: str) -> None:
        self.policy, self.problem, self.trace = policy, problem, trace
        super().__init__(policy, problem, trace)

    def __str__(self) -> str:
        return f"the policy {self.policy} failed: {self.problem}"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, as it was written."""

    cluster: str
    policies: Sequence[str]
    trace: str = ""
    history: Iterable[str] | None = None  # what the service has run, a line for each job, instead of a trace
    format: str | None = None
    profiles: Path | None = None
    stages: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    oracle: bool = False
    elastic: bool = False  # jobs of a trace without ranges can change their size
    fixed: bool = False  # no job can, whatever its trace says
    uninterrupted: bool = False  # nor may any be stopped
    restart_cost: str = "0"
    first_start: str = "0"
    rounds: str = "0"
    like: str | None = None  # another simulator, whose settings are taken where nothing else was asked for
    by_progress: bool = False  # see `traces.table.Source`, as the next
    goodput: bool = False
    checkpoint_every: str = "0"
    locality_penalty: float = 0.0
    bandwidth: float | None = None  # Gbit/s of each node that does not name its own
    gpu_use: float = 1.0
    node_mtbf: str = "0"
    node_repair: str = "1h"
    seed: int | None = None
    jobs: int | None = None
    strict: bool = False
    timeline: bool = False


@dataclass(frozen=True, slots=True)
class _Settings:
    world: Mapping[str, Any]
    params: Mapping[str, Any]


# Pollux's: every start takes half a minute, all is decided each minute, jobs end by their statistical progress, and
# Tiresias has two queues.
_LIKE = {
    "pollux": _Settings(
        {"restart_cost": "30s", "first_start": "30s", "rounds": "60s", "by_progress": True},
        {"thresholds": 57600, "promote": "off"},
    )
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One policy of a study."""

    label: str  # as it was asked for
    preset: str
    stages: dict[str, str]
    params: dict[str, Any]
    ignored: tuple[str, ...] = ()  # parameters of other stages than its own

    def build(self) -> Policy:
        return build_policy(self.preset, self.stages, self.params, files=True)


@dataclass(frozen=True, slots=True)
class Study:
    """Checked and ready to run. Plain data, so that a worker process can have it."""

    workload: Workload
    nodes: Sequence[Node]
    choices: Sequence[Choice]
    options: SimOptions
    cluster: str  # as it was written
    oracle: bool = False
    by_lot: bool = False  # another seed would give another result

    @property
    def too_large(self) -> list[int]:
        """Serials of jobs that ask for more GPUs than there are."""
        slots = sum(node.capacity[GPUS] for node in self.nodes)
        return [serial for serial, job in enumerate(self.workload.jobs, 1) if job.gpus > slots]

    def run(self, choice: Choice, progress: Progress | None = None) -> Result:
        """One of the policies. PolicyFailed if it raises an error."""
        adapts = any(job.adaptive for job in self.workload.jobs)
        facts: SimulatedFacts = OracleFacts(steady=not adapts) if self.oracle else LearnedFacts()
        begin = time.perf_counter()
        try:
            result = Simulation(self.workload, self.nodes, choice.build(), self.options, facts).run(progress)
        except Exception as error:  # whatever a policy does, the others go on
            problem = str(error) if isinstance(error, SchedulearnError) else f"{type(error).__name__}: {error}"
            raise PolicyFailed(choice.label, problem, traceback.format_exc()) from error
        return replace(
            result,
            policy=choice.label,
            wall_seconds=time.perf_counter() - begin,
            estimates=facts.report(),
        )


def prepare(request: Request) -> Study:
    """Read the workload and the cluster, and build every policy once. InvalidSpec says what is wrong."""
    if request.like is not None:
        request = like(request)
    if request.fixed and request.elastic:
        raise InvalidSpec("fixed", "jobs cannot keep their size and change it", "either fixed or elastic")
    nodes = _with_network(_cluster(request.cluster), request)
    options = _options(request)
    choices = choose(request.policies, request.stages, request.params, request.seed)
    recorded = _workload(request, _slots(nodes))
    workload = made_elastic(recorded, request.seed or 0) if request.elastic else recorded
    if request.goodput and not any(job.adaptive for job in workload.jobs):
        raise InvalidSpec("goodput", "this workload does not say what other batch sizes would do", "one of pollux")
    _check_slots(workload, nodes)
    by_lot = (
        _takes_seed(request.trace)
        or any(job is not other for job, other in zip(recorded.jobs, workload.jobs, strict=True))
        or options.node_mtbf > 0
        or ("seed" not in request.params and any("seed" in params_of(c.preset, c.stages, files=True) for c in choices))
    )
    return Study(workload, nodes, choices, options, request.cluster, request.oracle, by_lot)


def like(request: Request) -> Request:
    """With the settings of another simulator, but for what was asked for outright."""
    settings = _LIKE.get(request.like or "")
    if settings is None:
        raise InvalidSpec("like", f"there is no simulator {request.like!r}", ", ".join(_LIKE))
    plain = Request("", ())
    world = {name: value for name, value in settings.world.items() if getattr(request, name) == getattr(plain, name)}
    wanted = {name for policy in request.policies for name in _params_of(policy)}
    params = {name: value for name, value in settings.params.items() if name in wanted}
    return replace(request, like=None, params={**params, **request.params}, **world)


def _params_of(policy: str) -> set[str]:
    return {*params_of(policy, {})} if policy in PRESETS else set()


def choose(
    names: Sequence[str], stages: Mapping[str, str], params: Mapping[str, Any], seed: int | None = None
) -> list[Choice]:
    """The policies of these names; `all` are all presets. Each was built once, so none fails to build later.

    A stage that searches at random takes the `seed` unless a parameter gives it its own.
    """
    wanted = [name for given in names for name in (PRESETS if given == "all" else [given])]
    if not wanted:
        raise InvalidSpec("policies", "no policy is named", ", ".join(PRESETS))
    choices = [_choice(name, stages, params, seed) for name in dict.fromkeys(wanted)]
    _check_params(params, choices)
    return choices


def _choice(name: str, overrides: Mapping[str, str], params: Mapping[str, Any], seed: int | None) -> Choice:
    preset, stages = _preset_of(name, overrides)
    known = params_of(preset, stages, files=True)
    used = {key: value for key, value in params.items() if key in known}
    if seed is not None and "seed" in known:
        used.setdefault("seed", seed)
    choice = Choice(name, preset, stages, used, tuple(key for key in params if key not in known))
    choice.build()
    return choice


def _preset_of(name: str, overrides: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A preset; or somebody's own stage, with the plainest stages around it."""
    if name in PRESETS:
        return name, dict(overrides)
    if plugins.is_file(name):
        return PLAIN_PRESET, {**plugins.stages_in_file(name), **overrides}
    if name in plugins.names("order"):
        return PLAIN_PRESET, {"order": name, **overrides}
    return name, dict(overrides)  # building it says that it is unknown, and what there is


def _check_params(params: Mapping[str, Any], choices: Sequence[Choice]) -> None:
    """A parameter of another stage is passed over (and told); one that no stage at all has is a slip."""
    known = {param for stages in STAGES.values() for info in stages.values() for param in info.params}
    for key in params:
        if key not in known and all(key in choice.ignored for choice in choices):
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidSpec(f"params.{key}", f"no stage has a parameter {key!r}{hint}", ", ".join(sorted(known)))


def _cluster(text: str) -> list[Node]:
    path = Path(text)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return nodes_from_list(_yaml(path))
    return parse_cluster(text)


def _with_network(nodes: Sequence[Node], request: Request) -> list[Node]:
    if (given := request.bandwidth) is not None:
        nodes = [node if node.capacity[BANDWIDTH] else with_bandwidth(node, given, "bandwidth") for node in nodes]
    if request.locality_penalty and any(node.capacity[BANDWIDTH] for node in nodes):
        problem = "is what the bandwidth costs already, and would count twice"
        raise InvalidSpec("locality_penalty", problem, "one of the two")
    return list(nodes)


def _slots(nodes: Sequence[Node]) -> int:
    """GPUs, or cores where there are none."""
    return int(sum(node.capacity[GPUS] for node in nodes) or sum(node.capacity[CPUS] for node in nodes))


def _check_slots(workload: Workload, nodes: Sequence[Node]) -> None:
    if all(job.gpus for job in workload.jobs) and not any(node.capacity[GPUS] for node in nodes):
        raise InvalidSpec("cluster", "no node has a GPU, and every job of this workload asks for some")
    if not all(job.gpus for job in workload.jobs) and not any(node.capacity[CPUS] for node in nodes):
        raise InvalidSpec("cluster", "no node has cores, and jobs of this workload ask for no GPU", _WITH_CORES)


def _yaml(path: Path) -> object:
    """A list of nodes, or one under `nodes`."""
    import yaml  # only who writes a cluster as YAML pays for it

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidSpec("cluster", f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidSpec("cluster", f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return content.get("nodes") if isinstance(content, dict) else content


def _options(request: Request) -> SimOptions:
    if not 0 <= request.locality_penalty < 1:
        raise InvalidSpec("locality_penalty", f"{request.locality_penalty:g} is not allowed", "0 to below 1")
    if not 0 < request.gpu_use <= 1:
        raise InvalidSpec("gpu_use", f"{request.gpu_use:g} is not allowed", "above 0, up to 1")
    return SimOptions(
        restart_cost=parse_duration(request.restart_cost, "restart_cost"),
        fixed=request.fixed,
        uninterrupted=request.uninterrupted,
        first_start=parse_duration(request.first_start, "first_start"),
        rounds=parse_duration(request.rounds, "rounds"),
        checkpoint_every=parse_duration(request.checkpoint_every, "checkpoint_every"),
        locality_penalty=request.locality_penalty,
        gpu_use=request.gpu_use,
        node_mtbf=parse_duration(request.node_mtbf, "node_mtbf"),
        node_repair=parse_duration(request.node_repair, "node_repair"),
        seed=request.seed or 0,
        timeline=request.timeline,
    )


def _workload(request: Request, gpus: int) -> Workload:
    if request.history is not None:
        return _replayed(request)
    return load(
        _seeded(request.trace, request.seed),
        format=request.format,
        profiles=request.profiles,
        strict=request.strict,
        jobs=request.jobs,
        gpus=gpus,
        by_progress=request.by_progress,
        goodput=request.goodput,
    )


def _replayed(request: Request) -> Workload:
    workload = workload_of(request.history or ())
    if workload.problems and request.strict:
        raise InvalidSpec("history", f"{len(workload.problems)} jobs cannot be used: {workload.problems[0].text}")
    if not workload.jobs:
        raise InvalidSpec("history", "the service has not run any job to its end yet")
    return replace(workload, jobs=workload.jobs[: request.jobs])


def _seeded(trace: str, seed: int | None) -> str:
    """One seed is for everything: a synthetic workload that does not name its own takes it too."""
    return trace if seed is None or not _takes_seed(trace) else f"{trace}{'&' if '?' in trace else '?'}seed={seed}"


def _takes_seed(trace: str) -> bool:
    return is_synthetic(trace) and "seed=" not in trace
