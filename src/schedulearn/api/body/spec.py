"""The job spec as users write it: parsed humanely, checked strictly, and written back the same way."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from schedulearn.api.body.fields import (
    KEEPABLE,
    MAX_ID,
    MAX_NUMBER,
    ONE_LINE,
    WHOLE,
    CpuRange,
    Deadline,
    Duration,
    Grace,
    ImageName,
    Line,
    Priority,
    Size,
    Strict,
    deadline_at,
    invalid,
    one_line,
    plainly,
)
from schedulearn.api.body.pattern import MAX_LENGTH, check_pattern
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.notice import ALLOWED as ADDRESSES_ALLOWED
from schedulearn.core.domain.notice import parse_address
from schedulearn.core.domain.spec import (
    STOP,
    YIELD,
    JobSpec,
    Launcher,
    Metric,
    Preemptible,
    Target,
    WorkerResources,
    Workers,
)
from schedulearn.core.domain.units import parse_range, short

MAX_WORKERS = 10_000
_MAX_COMMAND = 100_000  # characters; the kernel takes no more than 128 KiB in one argument
_MAX_WORDS = 10_000
_MAX_TEXT = 200_000  # characters of command, environment, setup and mounts together: every list of jobs has them
_MAX_ADDRESS = 500
_NAMING = 2_000  # characters of a command in which its name is looked for
# A sign that is seen, of whatever writing: neither a control nor one of the many spaces.
_SEEN = r"[^\u0000-\u0020\u007f-\u00a0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
_SOMETHING = rf"^[^\u0000]*{_SEEN}[^\u0000]*$"
_NUMBER_TEXT = r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
_NOT_THEN = "^(?!then$)[^\\u0000]*$"
_COUNT_TEXT = r"(?:10000|[1-9][0-9]{0,3})"  # 1 to MAX_WORKERS
_WORKERS_TEXT = rf" *{_COUNT_TEXT} *(?:\.\. *{_COUNT_TEXT} *)?"
_INTERPRETERS = ("python", "bash", "sh", "env", "torchrun", "accelerate", "uv", "nohup", "time")


# --- fields of the spec with forms of their own


def _command(value: Any) -> Any:
    pieces = [value] if isinstance(value, str) else value
    if not isinstance(pieces, list) or not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise invalid(f"{short(value)} is not a command", "a text that is not empty, or a list of texts")
    if not re.search(_SEEN, pieces[0]):
        raise invalid(f"{short(value)} is not a command", "a text that is not empty, or a list of texts")
    if sum(map(len, pieces)) > _MAX_COMMAND or len(pieces) > _MAX_WORDS:
        raise invalid("it is too long", f"at most {_MAX_COMMAND} characters and {_MAX_WORDS} words")
    return value if isinstance(value, str) else tuple(value)


def _workers(value: Any) -> Any:
    """`2` and `1..4` as {min, want, max}."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and not re.fullmatch(_WORKERS_TEXT, value):
        raise invalid(
            f"{short(value)} is not a number of workers", f"1 to {MAX_WORKERS}, or a range of them such as 1..4"
        )
    low, high = parse_range(value, "workers")
    if low != int(low) or high != int(high):
        raise invalid(f"{short(value)} is not a number of workers", "whole numbers")
    return {"min": int(low), "max": int(high)}


def _wanted_workers(value: Any) -> Any:
    """Of a job that has workers: `2` is how many are wanted now, not how few it can do with."""
    read = _workers(value)
    return read if read is value or ".." in str(value) else {"want": read["min"]}


def _env(value: Any) -> Any:
    if not isinstance(value, dict):
        raise invalid("it is not a map", "names with their values")
    return {name: _env_value(name, text) for name, text in value.items()}


def _env_value(name: Any, value: Any) -> str:
    if not isinstance(name, str) or not name or "=" in name or len(name) > 200:
        raise invalid(f"{short(name)} is not a name", "names of at most 200 characters without =")
    if value is None:
        problem = (
            f"{short(name)} is null: the command line fills that in from its own environment; here it needs a value"
        )
        raise invalid(problem, "a text", field=short(name)[1:-1])
    too_large = isinstance(value, int | float) and not abs(value) <= MAX_NUMBER
    if isinstance(value, bool) or not isinstance(value, str | int | float) or too_large:
        raise invalid(f"{short(name)} is not a text", "a text; put it in quotes", field=short(name)[1:-1])
    if len(text := str(value)) > _MAX_COMMAND:
        raise invalid(f"{short(name)} is too long", f"at most {_MAX_COMMAND} characters", field=short(name)[1:-1])
    return text


def _preemptible(value: Any) -> Any:
    known = {"auto": Preemptible.AUTO, "true": Preemptible.YES, "false": Preemptible.NO}
    key = str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else ""
    if key not in known:
        raise invalid(f"{short(value)} is not known", "auto, true or false")
    return known[key]


def _target(value: Any) -> Any:
    """{loss: 0.05, then: stop}: the metric's own name is the key."""
    if value is None:
        return None
    allowed = "the metric's name with a number, and then: yield or stop; such as {loss: 0.05, then: stop}"
    if not isinstance(value, dict):
        raise invalid(f"{short(value)} is not a target", allowed)
    then = value.get("then", YIELD)
    names = [name for name in value if name != "then"]
    if then not in (YIELD, STOP) or len(names) != 1:
        raise invalid(f"{short(value)} is not a target", allowed)
    number = _finite(value[names[0]])
    if number is None:
        raise invalid(f"{short(value[names[0]])} is not a number", allowed)
    return (str(names[0]), number, then)


def _finite(value: Any) -> float | None:
    """A number, or a text that is one: YAML takes 1e-3 for a text."""
    if isinstance(value, str):
        return float(value) if re.fullmatch(_NUMBER_TEXT, value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        return None
    return float(value)


def _notify(value: Any) -> Any:
    """An address as it is, or {failed: address}: as `failed:address`."""
    if isinstance(value, dict) and len(value) == 1:
        ((only, target),) = value.items()
        value = f"{only}:{target}" if only in ("failed", "succeeded") and isinstance(target, str) else value
    if not isinstance(value, str) or not re.fullmatch(_ADDRESS["pattern"], value) or len(value) > _MAX_ADDRESS:
        raise invalid(f"{short(value)} is neither a web nor an e-mail address", ADDRESSES_ALLOWED)
    return str(plainly(lambda text: parse_address(text))(value))


def _dependencies(value: list[int]) -> list[int]:
    return list(dict.fromkeys(value))


def _metric_in_target(then: bool) -> dict[str, Any]:
    count = 2 if then else 1
    number = {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
    return {
        "type": "object",
        "properties": {"then": {"enum": [YIELD, STOP]}} if then else {},
        "required": ["then"] if then else [],
        "propertyNames": {"type": "string", "maxLength": 200, "pattern": "^[^\\u0000]*$" if then else _NOT_THEN},
        "additionalProperties": {"anyOf": [number, {"type": "string", "pattern": f"^(?:{_NUMBER_TEXT})$"}]},
        "minProperties": count,
        "maxProperties": count,
    }


Text = Annotated[str, Field(min_length=1, max_length=500, json_schema_extra=ONE_LINE), AfterValidator(one_line)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Positive = Annotated[int, Field(strict=True, ge=1, le=10**12), WHOLE]
Command = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _SOMETHING, "maxLength": _MAX_COMMAND},
                {
                    "type": "array",
                    "prefixItems": [{"type": "string", "pattern": _SOMETHING}],
                    "items": {"type": "string", **KEEPABLE},
                    "minItems": 1,
                    "maxItems": _MAX_WORDS,
                    "description": f"at most {_MAX_COMMAND} characters in all",
                },
            ]
        }
    ),
]
Env = Annotated[
    dict[str, str],
    Field(max_length=1000),
    BeforeValidator(_env),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"type": "string", "pattern": "^[^=\\u0000]+$", "maxLength": 200},
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "maxLength": _MAX_COMMAND, **KEEPABLE},
                    {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER},
                ]
            },
            "maxProperties": 1000,
        }
    ),
]
# That it means the same to everybody who reads it (a host, no password, no dots in its path) is checked besides.
_ADDRESS: dict[str, Any] = {
    "type": "string",
    "pattern": r"^ *(?:(?:failed|succeeded): *)?"
    r"(?:https?://[!#-;=?-\[\]_a-z~]+"
    r"|(?:mailto:)?[A-Za-z0-9_][A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*) *$",
    "maxLength": _MAX_ADDRESS,
}
AddressField = Annotated[
    str,
    BeforeValidator(_notify),
    WithJsonSchema(
        {
            "anyOf": [
                _ADDRESS,
                *(
                    {
                        "type": "object",
                        "properties": {only: _ADDRESS},
                        "required": [only],
                        "additionalProperties": False,
                    }
                    for only in ("failed", "succeeded")
                ),
            ],
            "examples": ["https://hooks.example.org/x", "ann@example.org", {"failed": "ann@example.org"}],
        }
    ),
]
TargetField = Annotated[
    tuple[str, float, Literal["yield", "stop"]] | None,
    BeforeValidator(_target),
    WithJsonSchema(
        {
            "anyOf": [_metric_in_target(then=True), _metric_in_target(then=False), {"type": "null"}],
            "examples": [{"loss": 0.05, "then": "stop"}],
        }
    ),
]
PreemptibleField = Annotated[
    Preemptible, BeforeValidator(_preemptible), WithJsonSchema({"enum": ["auto", "true", "false", True, False]})
]
Dependencies = Annotated[
    list[Annotated[int, Field(strict=True, ge=1, le=MAX_ID), WHOLE]], AfterValidator(_dependencies)
]
WorkerCount = Annotated[int, Field(strict=True, ge=1, le=MAX_WORKERS), WHOLE]


class WorkersIn(Strict):
    min: WorkerCount = 1
    want: WorkerCount | None = None
    max: WorkerCount | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        workers = self.to_domain()
        if not workers.min <= workers.want <= workers.max:
            raise invalid("the numbers are not in order", "min ≤ want ≤ max")
        return self

    def changes(self) -> dict[str, int]:
        """For a job that has workers: `want` alone leaves it to the job how few it can do with."""
        return {"want": self.want} if self.want and self.model_fields_set == {"want"} else asdict(self.to_domain())

    def to_domain(self) -> Workers:
        want = self.min if self.want is None else self.want
        return Workers(self.min, want, max(want, self.min) if self.max is None else self.max)


_WORKERS_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS},
            {"type": "string", "pattern": f"^(?:{_WORKERS_TEXT})$", "description": "a range such as 1..4"},
            {
                "type": "object",
                "properties": {
                    "min": {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS},
                    "want": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_WORKERS},
                    "max": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_WORKERS},
                },
                "additionalProperties": False,
            },
        ]
    }
)
WorkersField = Annotated[WorkersIn, BeforeValidator(plainly(_workers)), _WORKERS_SCHEMA]
WorkersChange = Annotated[WorkersIn, BeforeValidator(plainly(_wanted_workers)), _WORKERS_SCHEMA]


class ResourcesIn(Strict):
    """What each worker needs."""

    gpus: Annotated[int, Field(strict=True, ge=0, le=1024), WHOLE] = 0
    gpu_type: (
        Annotated[str, Field(min_length=1, max_length=100, json_schema_extra=ONE_LINE), AfterValidator(one_line)] | None
    ) = None
    cpus: Annotated[CpuRange, Field(json_schema_extra={"default": 1})] = (1.0, 1.0)
    memory: Size | None = None
    shm: Size | None = None

    @model_validator(mode="after")
    def _type_needs_gpus(self) -> Self:
        if self.gpu_type and not self.gpus:
            raise invalid("a GPU type is given, but no GPUs are asked for", "gpus of at least 1", field="gpu_type")
        return self

    def to_domain(self) -> WorkerResources:
        low, high = self.cpus
        return WorkerResources(self.gpus, self.gpu_type, low, high, self.memory, self.shm)


class MetricIn(Strict):
    """The number that tells how well the training goes."""

    name: Line = "loss"
    goal: Literal["min", "max"] = "min"
    pattern: (
        Annotated[str, AfterValidator(check_pattern), Field(json_schema_extra={"maxLength": MAX_LENGTH})] | None
    ) = None


class JobIn(Strict):
    """A job, as its user writes it. Everything but `command` (or `image`) has a default."""

    name: Line | None = Field(None, description="by default made from the command")
    command: Command | None = Field(None, description="a text is run by the shell, a list as it is")
    image: ImageName | None = Field(None, description="container image")
    setup: list[Text] = Field([], max_length=100)
    workdir: Annotated[
        str, Field(min_length=1, max_length=4096, json_schema_extra=ONE_LINE), AfterValidator(one_line)
    ] = Field(".", description="where it was submitted from; the snapshot is what runs")
    snapshot: Sha256 | None = Field(None, description="SHA-256 of the uploaded archive of the working folder")
    mounts: list[Text] = Field([], max_length=100)
    env: Env = Field({})
    launcher: Launcher = Launcher.COMMAND
    workers: WorkersField = WorkersIn()
    resources: ResourcesIn = Field(default_factory=ResourcesIn, description="for each worker")
    steps: Positive | None = Field(None, description="how many there are in all, if known")
    batch_sizes: list[Positive] = Field([], max_length=100)
    priority: Priority | None = Field(None, description="0..100, higher first; 50 by default")
    deadline: Deadline | None = None
    time_limit: Duration | None = Field(None, description="of running, over all attempts")
    max_restarts: Annotated[int, Field(strict=True, ge=0, le=1000), WHOLE] = 0
    grace: Grace = 30.0
    preemptible: PreemptibleField = Preemptible.AUTO
    depends_on: Dependencies = Field([], max_length=1000)
    metric: MetricIn = MetricIn()
    target: TargetField = None
    notify: list[AddressField] = Field([], max_length=20, description="whom to tell when it is over")

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.command is None and self.image is None:
            raise invalid("a job needs a command", "a text that is not empty, or a list of texts", field="command")
        self._check_launcher()
        self._check_length()
        if self.target and self.target[0] != self.metric.name:
            problem = f"{short(self.target[0])} is not the job's metric"
            raise invalid(problem, f"{self.metric.name} (set by metric.name)", field="target")
        if self.workdir != "." and self.snapshot is None:
            problem = "the folder cannot be seen from here: upload a snapshot of it with PUT /api/v1/snapshots/SHA256"
            raise invalid(problem, "a tar.gz archive, its SHA-256 given as `snapshot`", field="workdir")
        return self

    def _check_length(self) -> None:
        command = [self.command] if isinstance(self.command, str) else self.command or ()
        if sum(map(len, (*command, *self.env, *self.env.values(), *self.setup, *self.mounts))) > _MAX_TEXT:
            problem = "command, env, setup and mounts are too long together"
            raise invalid(problem, f"at most {_MAX_TEXT:,} characters; put large things into files", field="env")

    def _check_launcher(self) -> None:
        """A launcher needs a command to run, and Horovod runs only what it can."""
        if self.command is None and self.launcher in (Launcher.TORCHRUN, Launcher.HOROVOD):
            problem = f"{self.launcher} has nothing to run"
            raise invalid(problem, "what each process runs, such as python train.py", field="command")
        if self.launcher is not Launcher.HOROVOD:
            return
        words = [self.command] if isinstance(self.command, str) else list(self.command or ())
        if words[0].split()[0].endswith("horovodrun"):
            problem = "with launcher: horovod, horovodrun is put in front"
            raise invalid(problem, "what each process runs, such as python train.py", field="command")
        workers = self.workers.to_domain()
        if self.resources.gpus and workers.min < workers.max:
            problem = "a job of Horovod with GPUs cannot change its size: it keeps the devices it starts with"
            raise invalid(problem, "one number of workers, or no GPUs", field="workers")

    def to_domain(self, now: float, max_priority: int = 100) -> JobSpec:
        """As agreed. A priority that was not asked for is the usual one, or the caller's cap if that is lower."""
        return JobSpec(
            name=self.name or default_name(self.command, self.image),
            command=self.command if self.command is not None else (),
            image=self.image,
            setup=tuple(self.setup),
            workdir=self.workdir,
            snapshot=self.snapshot,
            mounts=tuple(self.mounts),
            env=self.env,
            launcher=self.launcher,
            workers=self.workers.to_domain(),
            resources=self.resources.to_domain(),
            steps=self.steps,
            batch_sizes=tuple(self.batch_sizes),
            priority=min(50, max_priority) if self.priority is None else self.priority,
            deadline=deadline_at(self.deadline, now),
            time_limit=self.time_limit,
            max_restarts=self.max_restarts,
            grace=self.grace,
            preemptible=self.preemptible,
            depends_on=tuple(JobId(i) for i in self.depends_on),
            metric=Metric(self.metric.name, self.metric.goal, self.metric.pattern),
            target=Target(self.target[1], self.target[2]) if self.target else None,
            notify=tuple(self.notify),
        )


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

    def shown(values: Sequence[str]) -> list[str]:
        return list(values) if private else [HIDDEN] * len(values)

    return {
        "name": spec.name,
        "command": spec.command if isinstance(spec.command, str) else list(spec.command) or None,
        "image": spec.image,
        "setup": shown(spec.setup),
        "workdir": spec.workdir if private or spec.workdir == "." else HIDDEN,
        "snapshot": spec.snapshot if private else None,
        "mounts": shown(spec.mounts),
        "env": dict(spec.env) if private else dict.fromkeys(spec.env, HIDDEN),
        "launcher": spec.launcher.value,
        "workers": _workers_out(spec.workers),
        "resources": _resources_out(spec.resources),
        "steps": spec.steps,
        "batch_sizes": list(spec.batch_sizes),
        "priority": spec.priority,
        "deadline": None if spec.deadline is None else iso(spec.deadline),
        "time_limit": spec.time_limit,
        "max_restarts": spec.max_restarts,
        "grace": spec.grace,
        "preemptible": {"auto": "auto", "true": True, "false": False}[spec.preemptible.value],
        "depends_on": list(spec.depends_on),
        "metric": {"name": spec.metric.name, "goal": spec.metric.goal, "pattern": spec.metric.pattern},
        "target": {spec.metric.name: spec.target.value, "then": spec.target.then} if spec.target else None,
        "notify": shown(spec.notify),
    }


def iso(at: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _workers_out(workers: Workers) -> int | str | dict[str, int]:
    if workers.min == workers.max:
        return workers.min
    if workers.want == workers.min:
        return f"{workers.min}..{workers.max}"
    return {"min": workers.min, "want": workers.want, "max": workers.max}


def _resources_out(resources: WorkerResources) -> dict[str, Any]:
    low, high = resources.cpus_min, resources.cpus_max
    return {
        "gpus": resources.gpus,
        "gpu_type": resources.gpu_type,
        "cpus": low if low == high else f"{low!r}..{high!r}",
        "memory": resources.memory,
        "shm": resources.shm,
    }
