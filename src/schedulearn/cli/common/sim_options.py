"""The options of a simulation, which `simulate` and `compare` share: from the command line to a study."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.out import note
from schedulearn.cli.common.params import PARAM, params_of
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import option, parameter

if TYPE_CHECKING:
    from schedulearn.lab.sim.run import BadRequest, Study

Text = str | None
TRACE = ("FILE|synthetic:…", "The workload: a file, or generated, such as synthetic:philly?jobs=1000&load=0.9.")
_STAGES = ("order", "allocate", "place", "share", "migrate")
_MOST = 100_000  # jobs of the history, the newest
_SHOWN = 5  # malformed rows, and jobs that are too large, of which a line is shown


class _Option(NamedTuple):
    name: str
    kind: Any
    usual: Any
    metavar: str  # of a switch: ""
    help: str
    least: int | None = None


_OPTIONS = (
    _Option("trace", Text, None, *TRACE),
    _Option("history", bool, False, "", "Replay what the service has run, instead of a trace."),
    _Option("format", Text, None, "NAME",
            "philly, elasticflow, pollux, tiresias, sacct, schedulearn. [default: by its header]"),
    _Option("profiles", Path | None, None, "DIR", "Measured profiles of a pollux workload. [default: beside it]"),
    _Option("cluster", Text, None, "16x4|2x8c|FILE.yaml", "Nodes × GPUs, nodes × cores, or a list of nodes."),
    _Option("order", Text, None, "NAME", "The order stage, instead of the policy's."),
    _Option("allocate", Text, None, "NAME", "The allocate stage, likewise."),
    _Option("place", Text, None, "NAME", "The place stage, likewise."),
    _Option("share", Text, None, "NAME", "The share stage (CPU on a shared node): fair, flowcon."),
    _Option("migrate", Text, None, "NAME", "The migrate stage: none, consolidate, specon."),
    _Option("param", list[str] | None, None, *PARAM),
    _Option("oracle", bool, False, "", "Policies know true durations, speed-ups and restart costs."),
    _Option("elastic", bool, False, "",
            "Let jobs without a range of workers have 1 to twice as many as they ask for."),
    _Option("fixed", bool, False, "", "Let every job keep the size that it asks for, whatever its trace says."),
    _Option("uninterrupted", bool, False, "", "Let no job be stopped, moved or resized once it runs."),
    _Option("goodput", bool, False, "", "Let the jobs of a pollux workload leave their batch size to the scheduler."),
    _Option("restart_cost", str, "0", "S", "Time lost when a job starts again."),
    _Option("first_start", str, "0", "S", "Time lost when a job starts for the first time."),
    _Option("rounds", str, "0", "S", "Decide only so often; 0: whenever something happens."),
    _Option("like", Text, None, "pollux", "The settings of another simulator, where you name none."),
    _Option("checkpoint_every", str, "0", "S", "Work between two checkpoints; 0: a job saves when it is stopped."),
    _Option("locality_penalty", float, 0.0, "X", "Share of its speed that a job on several nodes loses, 0 to 1."),
    _Option("bandwidth", float | None, None, "GBIT",
            "Network of each node in Gbit/s: what it costs to exchange gradients across nodes."),
    _Option("gpu_use", float, 1.0, "X",
            "The part of a GPU that a job keeps busy, where the trace does not say: for gandiva-pack."),
    _Option("node_mtbf", str, "0", "S", "Mean time between failures of a node; 0: none."),
    _Option("node_repair", str, "1h", "S", "Time until a failed node is back."),
    _Option("seed", int | None, None, "N", "Seed of all random numbers.", 0),
    _Option("jobs", int | None, None, "N", "Only the first N jobs."),
    _Option("strict", bool, False, "", "Refuse a trace with malformed rows."),
    _Option("out", Path | None, None, "DIR", "Write CSV files and report.html there."),
)  # fmt: skip
# What the study is told as it was written; of the others it is told what they mean.
_AS_WRITTEN = {one.name for one in _OPTIONS} - {"trace", "history", *_STAGES, "param", "out"}


def _parameter(one: _Option) -> inspect.Parameter:
    switch = "--" + one.name.replace("_", "-")
    asked = option(one.metavar, one.help, min=one.least) if one.metavar else typer.Option(switch, help=one.help)
    return parameter(one.name, Annotated[one.kind, asked], one.usual)


sim_options = [_parameter(one) for one in _OPTIONS]
several_options = [one for one in sim_options if one.name != "trace"]  # of a verb that takes several


def study_of(given: Mapping[str, Any], policies: list[str]) -> "Study":
    """The only one."""
    return studies_of(given, policies, [given["trace"]] if given["trace"] else [], 1)[0]


def studies_of(given: Mapping[str, Any], policies: list[str], traces: Sequence[str], seeds: int) -> list["Study"]:
    """Everything checked and read, the folder for the results made; what was left out is told on stderr."""
    if bool(traces) == given["history"]:
        raise Failure("no workload given", field="--trace", allowed="either --trace FILE or --history")
    if not given["cluster"]:
        raise Failure(
            "no cluster given",
            field="--cluster",
            allowed="NODESxGPUS such as 16x4, NODESxCORESc such as 2x8c, or a YAML file",
        )
    from schedulearn.lab.report.files import make_folder
    from schedulearn.lab.sim.run import BadRequest, Request
    from schedulearn.lab.sim.several import prepare_all

    request = Request(
        policies=policies,
        history=_history() if given["history"] else None,
        stages={stage: given[stage] for stage in _STAGES if given[stage]},
        params=params_of(given["param"] or []),
        timeline=given["out"] is not None and len(traces) < 2 and seeds < 2,
        **{name: given[name] for name in _AS_WRITTEN},
    )
    try:
        studies = prepare_all(request, traces or [""], seeds)
        if given["out"] is not None:
            make_folder(given["out"])
    except BadRequest as error:
        raise failure_of(error) from error
    for study in {study.workload.name: study for study in reversed(studies)}.values():
        _tell(study, f"{study.workload.name}: " if len(traces) > 1 else "")
    _tell_ignored(studies[0])
    return studies


def _history() -> list[str]:
    with connect() as client:
        return client.history(_MOST).splitlines()


def failure_of(error: "BadRequest") -> Failure:
    """With the option that is wrong instead of the field."""
    kind, _, name = error.field.partition(".")
    if kind == "params":
        option = f"--param {name}"
    elif kind == "stages":
        option = f"--{name}" if name else ""
    elif kind in ("preset", "policy", "policies"):
        option = "--policy"
    elif kind.startswith("cluster["):  # a node of the file
        option = f"--cluster: {error.field}"
    else:
        option = f"--{kind.replace('_', '-')}" if kind in {one.name for one in _OPTIONS} else f"--trace …{kind}="
    return Failure(error.problem, field=option, allowed=error.allowed)


def _tell(study: "Study", name: str) -> None:
    from schedulearn.lab.sim.locality import in_words

    problems, large, jobs = study.workload.problems, study.too_large, study.workload.jobs
    if across := in_words(study.workload, study.nodes):
        note(f"{name}taken for true: {across}", "dim")
    if problems:
        note(f"{name}{len(problems)} malformed rows skipped (--strict refuses them):", "yellow")
        _listed([f"line {problem.line}: {problem.text}" for problem in problems[:_SHOWN]], len(problems))
    if large:
        note(f"{name}{len(large)} jobs ask for more GPUs than the cluster has:", "yellow")
        _listed([f"job {jobs[s - 1].label}: {jobs[s - 1].gpus} GPUs" for s in large[:_SHOWN]], len(large))


def _tell_ignored(study: "Study") -> None:
    ignored: dict[str, list[str]] = {}
    for choice in study.choices:
        for name in choice.ignored:
            ignored.setdefault(name, []).append(choice.label)
    for name, labels in ignored.items():
        note(f"the parameter {name} has no effect under {', '.join(labels)}", "dim")


def _listed(lines: list[str], total: int) -> None:
    for line in lines:
        note(f"  {line}")
    if total > len(lines):
        note(f"  and {total - len(lines)} more")
