"""The job spec as users write it: made from the table of fields, checked strictly, written back the same way."""

import shlex
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, PrivateAttr, create_model, model_validator
from pydantic import Field as Given

from schedulearn.api.body.fields import Strict, invalid
from schedulearn.api.body.first_form import first_form
from schedulearn.api.body.kinds import CHANGE_KINDS, KINDS, deadline_at
from schedulearn.core.domain.spec import JobSpec, Launcher, Metric, Target, WorkerResources, Workers
from schedulearn.core.domain.units import short
from schedulearn.wire.spec import CHANGES, FIELDS, PARTS, Field
from schedulearn.wire.words import iso

_MAX_TEXT = 200_000  # characters of command, environment, setup and mounts together: every list of jobs has them
_NAMING = 2_000  # characters of a command in which its name is looked for
_INTERPRETERS = ("python", "bash", "sh", "env", "torchrun", "accelerate", "uv", "nohup", "time")
_ORDER = [field.name for field in fields(JobSpec)]


class _Part(Strict):
    model_config = ConfigDict(validate_default=True)


def _model(name: str, part: str, about: str | None = None) -> type[_Part]:
    """The fields of one part of the spec ("": of the spec itself)."""
    given: dict[str, Any] = {}
    for field in FIELDS:
        outer, _, inner = field.path.rpartition(".")
        if outer == part:
            given[inner] = _given(field)
        elif not part and outer not in given:
            given[outer] = _nested(outer)
    if not part:
        given = {name: given[name] for name in _ORDER}
    return create_model(name, __base__=_Part, __doc__=about, **given)


def _given(field: Field) -> tuple[Any, Any]:
    kind = KINDS[field.kind]
    return (kind | None if field.default is None else kind, Given(field.default, description=field.about or None))


def _nested(part: str) -> tuple[Any, Any]:
    about, description, _ = PARTS[part]
    model = _model(f"{part.title()}In", part, about)
    return Annotated[model, AfterValidator(_READ[part])], Given({}, description=description or None)


def _resources(given: Any) -> WorkerResources:
    values = dict(given)
    low, high = values.pop("cpus")
    if values["gpu_type"] and not values["gpus"]:
        raise invalid("a GPU type is given, but no GPUs are asked for", "gpus of at least 1", field="gpu_type")
    return WorkerResources(cpus_min=low, cpus_max=high, **values)


_READ: dict[str, Callable[[Any], Any]] = {"resources": _resources, "metric": lambda given: Metric(**dict(given))}
if TYPE_CHECKING:
    _Fields = _Part
else:
    _Fields = _model("JobFields", "")


class JobIn(_Fields):
    """A job, as its user writes it. Everything but `command` (or `image`) has a default."""

    _spec: JobSpec = PrivateAttr()  # without what depends on the moment and the caller

    @model_validator(mode="before")
    @classmethod
    def _is_of_today(cls, data: Any) -> Any:
        if answer := first_form(data):
            raise answer
        return data

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        values = dict(self)
        if values["command"] is None and values["image"] is None:
            raise invalid("a job needs a command", "a text that is not empty, or a list of texts", field="command")
        target, metric = values["target"], values["metric"]
        values |= {
            "name": values["name"] or default_name(values["command"], values["image"]),
            "command": () if values["command"] is None else values["command"],
            "priority": 50,
            "deadline": None,
            "target": Target(target[1], target[2]) if target else None,
        }
        self._spec = JobSpec(**values)
        _check_launcher(self._spec)
        _check_length(self._spec)
        if target and target[0] != metric.name:
            problem = f"{short(target[0])} is not the job's metric"
            raise invalid(problem, f"{metric.name} (set by metric.name)", field="target")
        if self._spec.workdir != "." and self._spec.snapshot is None:
            problem = "the folder cannot be seen from here: upload a snapshot of it with PUT /api/v1/snapshots/SHA256"
            raise invalid(problem, "a tar.gz archive, its SHA-256 given as `snapshot`", field="workdir")
        return self

    def to_domain(self, now: float, max_priority: int = 100) -> JobSpec:
        """As agreed. A priority that was not asked for is the usual one, or the caller's cap if that is lower."""
        given = dict(self)
        priority = min(50, max_priority) if given["priority"] is None else given["priority"]
        return replace(self._spec, priority=priority, deadline=deadline_at(given["deadline"], now))


def _change(field: Field) -> tuple[Any, Any]:
    kind = CHANGE_KINDS.get(field.kind, KINDS[field.kind])
    return (kind | None if field.change and field.change.removable else kind, Given(default_factory=lambda: None))


if TYPE_CHECKING:
    _Changes = Strict
else:
    _Changes = create_model("Changes", __base__=Strict, **{field.path: _change(field) for field in CHANGES})


class JobChanges(_Changes):
    """Fields that are left out stay as they are; null takes a deadline, a limit or a target away."""

    def to_fields(self, now: float) -> dict[str, Any]:
        given = {name: value for name, value in self if name in self.model_fields_set}
        return given | ({"deadline": deadline_at(given["deadline"], now)} if "deadline" in given else {})


def _check_length(spec: JobSpec) -> None:
    command = [spec.command] if isinstance(spec.command, str) else spec.command
    if sum(map(len, (*command, *spec.env, *spec.env.values(), *spec.setup, *spec.mounts))) > _MAX_TEXT:
        problem = "command, env, setup and mounts are too long together"
        raise invalid(problem, f"at most {_MAX_TEXT:,} characters; put large things into files", field="env")


def _check_launcher(spec: JobSpec) -> None:
    """A launcher needs a command to run, and Horovod runs only what it can."""
    if not spec.command and spec.launcher in (Launcher.TORCHRUN, Launcher.HOROVOD):
        problem = f"{spec.launcher} has nothing to run"
        raise invalid(problem, "what each process runs, such as python train.py", field="command")
    if spec.launcher is not Launcher.HOROVOD:
        return
    first = spec.command if isinstance(spec.command, str) else spec.command[0]
    if first.split()[0].endswith("horovodrun"):
        problem = "with launcher: horovod, horovodrun is put in front"
        raise invalid(problem, "what each process runs, such as python train.py", field="command")
    if spec.resources.gpus and spec.workers.min < spec.workers.max:
        problem = "a job of Horovod with GPUs cannot change its size: it keeps the devices it starts with"
        raise invalid(problem, "one number of workers, or no GPUs", field="workers")


def default_name(command: str | tuple[str, ...] | None, image: str | None) -> str:
    """`train` for `python -u train.py --lr 1`: the first word that is neither an interpreter nor an option."""
    words = list(command) if isinstance(command, tuple) else _split((command or "")[:_NAMING])
    if "-c" in words:
        words = words[: words.index("-c")]  # what follows is a program, not a name
    words = [PurePosixPath(word).name for word in words if not word.startswith("-") and "=" not in word]
    named = [word for word in words if not word.startswith(_INTERPRETERS)]
    best = next(iter(named or words), "") or PurePosixPath(image or "job").name
    clean = "".join(c for c in best.removesuffix(".py").removesuffix(".sh") if c.isprintable())
    return clean[:80].strip() or "job"


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # quotes that do not match: the shell will say so
        return command.split()


# --- and back


HIDDEN = "***"


def spec_out(spec: JobSpec, private: bool) -> dict[str, Any]:
    """The spec as its user may write it again; without what is `private`, as others may see it.

    What may hold secrets, and where things are, is hidden then. The hash of a snapshot is not told at all.
    """
    found: dict[str, Any] = {name: {} if name in PARTS else None for name in _ORDER}
    for field in FIELDS:
        part, _, name = field.path.rpartition(".")
        value = _value(field, spec, part, name)
        (found[part] if part else found)[name] = value if private else _hidden(field, value)
    return found


def _value(field: Field, spec: JobSpec, part: str, name: str) -> Any:
    if write := _WRITTEN.get(field.kind):
        return write(spec)
    value = getattr(getattr(spec, part) if part else spec, name)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if field.kind == "env" else value


def _hidden(field: Field, value: Any) -> Any:
    if field.private == "left out":
        return None
    if not field.private or value == field.default:
        return value
    if isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    return [HIDDEN] * len(value) if isinstance(value, list) else HIDDEN


def _workers_out(workers: Workers) -> int | str | dict[str, int]:
    if workers.min == workers.max:
        return workers.min
    if workers.want == workers.min:
        return f"{workers.min}..{workers.max}"
    return {"min": workers.min, "want": workers.want, "max": workers.max}


def _cpus_out(resources: WorkerResources) -> float | str:
    low, high = resources.cpus_min, resources.cpus_max
    return low if low == high else f"{low!r}..{high!r}"


# Kinds that are not written as they are kept.
_WRITTEN: dict[str, Callable[[JobSpec], Any]] = {
    "batch": lambda spec: str(spec.batch) if spec.batch else None,
    "command": lambda spec: spec.command if isinstance(spec.command, str) else list(spec.command) or None,
    "cpus": lambda spec: _cpus_out(spec.resources),
    "deadline": lambda spec: None if spec.deadline is None else iso(spec.deadline),
    "launcher": lambda spec: spec.launcher.value,
    "preemptible": lambda spec: {"auto": "auto", "true": True, "false": False}[spec.preemptible.value],
    "target": lambda spec: {spec.metric.name: spec.target.value, "then": spec.target.then} if spec.target else None,
    "workers": lambda spec: _workers_out(spec.workers),
}
