"""The options that describe a job, shared by `run` and `submit`, and how they become a job's spec."""

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Annotated, Any

import typer

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.verb import complete_jobs, job_id

Spec = dict[str, Any]
Text = str | None


def _options(
    name: Annotated[Text, typer.Option(metavar="NAME", help="A name to find it by.")] = None,
    workers: Annotated[Text, typer.Option(metavar="N|N..M", help="How many workers: 2, or a range 1..4.")] = None,
    gpus: Annotated[int | None, typer.Option(metavar="N", help="GPUs for each worker.")] = None,
    gpu_type: Annotated[Text, typer.Option(metavar="MODEL", help="Only GPUs of this model, such as A100.")] = None,
    cpus: Annotated[Text, typer.Option(metavar="N|N..M", help="Cores for each worker: 2, or 0.5..4.")] = None,
    memory: Annotated[Text, typer.Option(metavar="SIZE", help="Memory for each worker, such as 4GB.")] = None,
    shm: Annotated[Text, typer.Option(metavar="SIZE", help="Shared memory for each worker.")] = None,
    priority: Annotated[int | None, typer.Option(metavar="0..100", help="Higher goes first; usual is 50.")] = None,
    deadline: Annotated[Text, typer.Option(metavar="TIME", help="When it should be done: 6h, or a date.")] = None,
    time_limit: Annotated[Text, typer.Option(metavar="DURATION", help="Stop it after running this long: 8h.")] = None,
    max_restarts: Annotated[int | None, typer.Option(metavar="N", help="Try again so often if it fails.")] = None,
    grace: Annotated[
        Text, typer.Option(metavar="DURATION", help="Time to save and end before it is killed: 30s.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="K=V|K", help="Set a variable; K alone takes your value. Repeatable.")
    ] = None,
    depends_on: Annotated[
        list[int] | None,
        typer.Option(
            metavar="JOB",
            help="Start only after this job succeeded. Repeatable.",
            parser=job_id,
            autocompletion=complete_jobs,
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Total number of steps, if known.")] = None,
    metric: Annotated[Text, typer.Option(metavar="NAME", help="The number to watch; usual is loss.")] = None,
    goal: Annotated[Text, typer.Option(metavar="min|max", help="Whether the metric should fall or rise.")] = None,
    pattern: Annotated[Text, typer.Option(metavar="REGEX", help="Finds the metric in the output; one group.")] = None,
    target: Annotated[
        Text,
        typer.Option(
            metavar="[NAME=]VALUE[:stop]",
            help="The metric's value that is good enough: then others go first, or with :stop it ends.",
        ),
    ] = None,
    image: Annotated[Text, typer.Option(metavar="IMAGE", help="Docker image to run in.")] = None,
    setup: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="A line that prepares the image. Repeatable.")
    ] = None,
    mount: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="A data folder of the host. Repeatable.")
    ] = None,
    launcher: Annotated[Text, typer.Option(metavar="KIND", help="command, torchrun, horovod or elastic.")] = None,
    preemptible: Annotated[
        Text, typer.Option(metavar="auto|true|false", help="Whether others may push it back.")
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Tell it when it is over: https://… or an e-mail address. Repeatable."),
    ] = None,
    workdir: Annotated[
        Text, typer.Option(metavar="DIR", help="The folder that is copied and run in; usual is the present one.")
    ] = None,
    no_workdir: Annotated[bool, typer.Option("--no-workdir", help="Copy nothing: run in an empty folder.")] = False,
) -> None:
    """Only its signature is used."""


def with_job_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that ends in `**given` gets all options of a job in it."""
    own = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(verb).parameters.values()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    job = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in inspect.signature(_options).parameters.values()]
    verb.__signature__ = inspect.Signature(own + job)  # type: ignore[attr-defined] # Typer reads it
    return verb


# Where an option goes in the spec. Those that need more than to be copied are handled in `spec_of`.
_PLACES: dict[str, tuple[str, ...]] = {
    "name": ("name",), "image": ("image",), "launcher": ("launcher",), "steps": ("steps",),
    "workers": ("workers",), "priority": ("priority",), "time_limit": ("time_limit",), "deadline": ("deadline",),
    "max_restarts": ("max_restarts",), "grace": ("grace",), "preemptible": ("preemptible",),
    "depends_on": ("depends_on",), "setup": ("setup",), "mount": ("mounts",), "notify": ("notify",),
    "workdir": ("workdir",),
    "gpus": ("resources", "gpus"), "gpu_type": ("resources", "gpu_type"), "cpus": ("resources", "cpus"),
    "memory": ("resources", "memory"), "shm": ("resources", "shm"),
    "metric": ("metric", "name"), "goal": ("metric", "goal"), "pattern": ("metric", "pattern"),
}  # fmt: skip


def spec_of(given: Mapping[str, Any], command: list[str], base: Spec | None = None) -> Spec:
    """The spec: what the file says (`base`), with what the options say put over it."""
    spec: Spec = {key: dict(value) if isinstance(value, Mapping) else value for key, value in (base or {}).items()}
    if command:
        spec["command"] = command[0] if len(command) == 1 else command
    for option, path in _PLACES.items():
        value = given.get(option)
        if value is not None and value != []:
            _put(spec, path, _value(option, value))
    if given.get("env"):
        spec["env"] = {**(spec.get("env") or {}), **_variables(given["env"])}
    if given.get("target") is not None:
        spec["target"] = target(given["target"], metric_name(spec))
    if given.get("no_workdir"):
        spec["workdir"] = None
    return spec


def metric_name(spec: Spec) -> str:
    metric = spec.get("metric")
    return metric if isinstance(metric, str) else (metric or {}).get("name") or "loss"


def target(text: str, metric: str) -> dict[str, float | str]:
    """`0.05`, `loss=0.05` or `loss=0.05:stop` as the service wants it. The name may be left out."""
    wanted, _, then = text.strip().rpartition(":") if text.strip().endswith((":stop", ":yield")) else (text, "", "")
    name, _, number = wanted.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        allowed = f"{metric}=0.05, and :stop behind it to end the job there"
        raise Failure(f"{text!r} is not a target", field="--target", allowed=allowed) from None
    return {name.strip() or metric: value, **({"then": then} if then else {})}


def _put(spec: Spec, path: tuple[str, ...], value: object) -> None:
    inner = spec
    for key in path[:-1]:
        if not isinstance(inner.get(key), dict):
            # `metric: loss` in a file is short for its name.
            inner[key] = {"name": inner[key]} if isinstance(inner.get(key), str) else {}
        inner = inner[key]
    inner[path[-1]] = value


def _value(option: str, value: Any) -> Any:
    if option in ("workers", "cpus", "time_limit", "grace"):
        return as_number(value)
    if option == "deadline":
        return moment(value)
    return value


def as_number(text: str) -> int | float | str:
    """`2` and `0.5` as numbers; anything else is left for the service to judge."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    return text


def moment(text: str) -> str:
    """A date without a time zone is meant in the reader's own; a duration such as `6h` is left as it is."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    return at.astimezone().isoformat()


def _variables(given: list[str]) -> dict[str, str | None]:
    variables: dict[str, str | None] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise Failure(
                f"{item!r} does not begin with a variable's name",
                field="--env",
                allowed="NAME=VALUE, or NAME to take the value it has here",
            )
        variables[key] = value if equals else None
    return variables


def plain_values(value: Any) -> Any:
    """YAML knows dates, JSON does not: dates as text, everywhere in a spec."""
    if isinstance(value, Mapping):
        return {str(k): plain_values(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain_values(v) for v in value]
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    if isinstance(value, date):
        return moment(value.isoformat())
    return value


# The option that sets a field, to name it in errors.
OPTION_OF = {".".join(path): "--" + option.replace("_", "-") for option, path in _PLACES.items()}
