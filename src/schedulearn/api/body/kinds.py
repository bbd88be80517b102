"""How each kind of field of a job's spec is read and described: humane forms in, the domain's values out."""

import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from schedulearn.api.body.fields import (
    DATE_TEXT,
    KEEPABLE,
    MAX_ID,
    MAX_NUMBER,
    SHA256,
    WHOLE,
    ImageName,
    Line,
    OneLine,
    Priority,
    Strict,
    invalid,
    plainly,
)
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.notice import ALLOWED as ADDRESSES_ALLOWED
from schedulearn.core.domain.notice import parse_address
from schedulearn.core.domain.spec import (
    STOP,
    YIELD,
    Batches,
    Launcher,
    Preemptible,
    Workers,
)
from schedulearn.core.domain.units import (
    DURATION_TEXT,
    DURATIONS_ALLOWED,
    LONGEST_TEXT,
    RANGE_TEXT,
    SIZE_TEXT,
    format_duration,
    parse_duration,
    parse_range,
    parse_size,
    short,
)
from schedulearn.service.progress.pattern import MAX_LENGTH, compile_pattern

MAX_WORKERS = 10_000
_YEAR = 365 * 86400.0  # seconds
_MAX_COMMAND = 100_000  # characters; the kernel takes no more than 128 KiB in one argument
_MAX_WORDS = 10_000
_MAX_ADDRESS = 500
# A sign that is seen, of whatever writing: neither a control nor one of the many spaces.
_SEEN = r"[^\u0000-\u0020\u007f-\u00a0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
_SOMETHING = rf"^[^\u0000]*{_SEEN}[^\u0000]*$"
_NUMBER_TEXT = r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
_TARGET = ("metric", "value", "then")
_NOT_THEN = "^(?!then$)[^\\u0000]*$"
_COUNT_TEXT = r"(?:10000|[1-9][0-9]{0,3})"  # 1 to MAX_WORKERS
_BATCH_TEXT = r" *([1-9][0-9]{0,8}) *\.\. *([1-9][0-9]{0,8}) *"
_WORKERS_TEXT = rf" *{_COUNT_TEXT} *(?:\.\. *{_COUNT_TEXT} *)?"


def _text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def _either(*forms: dict[str, Any], **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(forms), **more})


# --- amounts


def _bounded(low: float, high: float, unit: str = "") -> Callable[[float], float]:
    def check(value: float) -> float:
        if not low <= value <= high:
            raise invalid(f"{value:g} is out of bounds", f"{low:g}..{high:g}{unit}")
        return value

    return check


def _bounded_duration(low: float, high: float) -> Callable[[float], float]:
    def check(value: float) -> float:
        if not low <= value <= high:
            allowed = f"{format_duration(low)} to {format_duration(high)}"
            raise invalid(f"{format_duration(min(value, 1e12))} is out of bounds", allowed)
        return value

    return check


def _deadline(value: Any) -> float | datetime:
    """Seconds from now, or a date with its zone."""
    if isinstance(value, str) and re.fullmatch(DATE_TEXT, value):
        try:
            date = datetime.fromisoformat(value)
        except ValueError:
            raise invalid(f"{short(value)} is no date that exists", "such as 2030-01-31T18:00:00Z") from None
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    try:
        seconds = parse_duration(value, "deadline")
    except InvalidSpec:
        allowed = f"{DURATIONS_ALLOWED} from now; or a date such as 2030-01-31T18:00:00Z"
        raise invalid(f"{short(value)} is neither a duration nor a date", allowed) from None
    return _bounded_duration(1, 100 * _YEAR)(seconds)


def _size(value: Any) -> int:
    size: int = plainly(lambda text: parse_size(text, ""))(value)
    _bounded(1e6, 1e15, " bytes")(size if isinstance(value, str) else value)
    return size


def _humane_json(low: float, high: float, form: str, example: str) -> WithJsonSchema:
    """A number in bounds, or a text. That the amount in the text is in bounds, too, no schema can say."""
    text = _text(maxLength=LONGEST_TEXT, pattern=f"^(?:{form})$", description=f"such as {example}; in the same bounds")
    return _either({"type": "number", "minimum": low, "maximum": high}, text)


def _duration(low: float, high: float, example: str) -> Any:
    return Annotated[
        float,
        BeforeValidator(plainly(lambda value: parse_duration(value, ""))),
        AfterValidator(_bounded_duration(low, high)),
        _humane_json(low, high, DURATION_TEXT, example),
    ]


Size = Annotated[
    int,
    BeforeValidator(_size),
    _humane_json(1e6, 1e15, SIZE_TEXT, "512MB, 4GB or 1.5GiB"),
]
Deadline = Annotated[
    float | datetime,
    BeforeValidator(_deadline),
    _humane_json(1, 100 * _YEAR, f"{DURATION_TEXT}|{DATE_TEXT}", "6h, or 2030-01-31T18:00:00Z"),
]
CpuRange = Annotated[
    tuple[float, float],
    BeforeValidator(plainly(lambda value: parse_range(value, ""))),
    AfterValidator(lambda pair: (_bounded(0.01, 10_000)(pair[0]), _bounded(0.01, 10_000)(pair[1]))),
    _humane_json(0.01, 10_000, RANGE_TEXT, "0.5..4"),
]
Cores = Annotated[
    float,
    Field(strict=True, json_schema_extra={"minimum": 0.01, "maximum": 10_000}),
    AfterValidator(_bounded(0.01, 10_000, " cores")),
]


def deadline_at(value: float | datetime | None, now: float) -> float | None:
    """As seconds since the epoch; InvalidSpec if it has passed."""
    if value is None:
        return None
    if isinstance(value, float | int):
        return now + value
    try:
        at = value.timestamp()
    except (OverflowError, ValueError):
        at = 0.0
    if not now < at <= now + 100 * _YEAR:
        raise InvalidSpec("deadline", f"{value.isoformat()} has passed or is too far away", "a date in the future")
    return at


# --- other forms


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
    field = short(name)[1:-1]
    if value is None:
        problem = "is null: the command line fills that in from its own environment; here it needs a value"
        raise invalid(f"{short(name)} {problem}", "a text", field)
    too_large = isinstance(value, int | float) and not abs(value) <= MAX_NUMBER
    if isinstance(value, bool) or not isinstance(value, str | int | float) or too_large:
        raise invalid(f"{short(name)} is not a text", "a text; put it in quotes", field)
    if len(text := str(value)) > _MAX_COMMAND:
        raise invalid(f"{short(name)} is too long", f"at most {_MAX_COMMAND} characters", field)
    return text


def _batch(value: Any) -> Any:
    found = re.fullmatch(_BATCH_TEXT, value) if isinstance(value, str) else None
    sizes = [int(size) for size in found.groups()] if found else [0]
    if not found or sizes != sorted(sizes):
        raise invalid(f"{short(value)} is not a range of batch sizes", "two whole numbers, such as 32..512")
    return Batches(*sizes)


def _preemptible(value: Any) -> Any:
    known = {"auto": Preemptible.AUTO, "true": Preemptible.YES, "false": Preemptible.NO}
    key = str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else ""
    if key not in known:
        raise invalid(f"{short(value)} is not known", "auto, true or false")
    return known[key]


def _target(value: Any) -> Any:
    """{loss: 0.05, then: stop}: the metric's own name is the key."""
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


_NUMBER = {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
Command = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_command),
    _either(
        _text(pattern=_SOMETHING, maxLength=_MAX_COMMAND),
        {
            "type": "array",
            "prefixItems": [_text(pattern=_SOMETHING)],
            "items": _text(**KEEPABLE),
            "minItems": 1,
            "maxItems": _MAX_WORDS,
            "description": f"at most {_MAX_COMMAND} characters in all",
        },
    ),
]
_ENV_SCHEMA = {
    "type": "object",
    "propertyNames": _text(pattern="^[^=\\u0000]+$", maxLength=200),
    "additionalProperties": {"anyOf": [_text(maxLength=_MAX_COMMAND, **KEEPABLE), _NUMBER]},
    "maxProperties": 1000,
}
Env = Annotated[dict[str, str], Field(max_length=1000), BeforeValidator(_env), WithJsonSchema(_ENV_SCHEMA)]
# That it means the same to every reader (a host, no password, no dots in its path) is checked besides.
_ADDRESS = _text(
    pattern=r"^ *(?:(?:failed|succeeded): *)?"
    r"(?:https?://[!#-;=?-\[\]_a-z~]+"
    r"|(?:mailto:)?[A-Za-z0-9_][A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*) *$",
    maxLength=_MAX_ADDRESS,
)
_ONLY_ENDS = [
    {"type": "object", "properties": {only: _ADDRESS}, "required": [only], "additionalProperties": False}
    for only in ("failed", "succeeded")
]
AddressField = Annotated[
    str,
    BeforeValidator(_notify),
    _either(
        _ADDRESS,
        *_ONLY_ENDS,
        examples=["https://hooks.example.org/x", "ann@example.org", {"failed": "ann@example.org"}],
    ),
]


def _metric_in_target(then: bool) -> dict[str, Any]:
    count = 2 if then else 1
    return {
        "type": "object",
        "properties": {"then": {"enum": [YIELD, STOP]}} if then else {},
        "required": ["then"] if then else [],
        "propertyNames": _text(maxLength=200, pattern="^[^\\u0000]*$" if then else _NOT_THEN),
        "additionalProperties": {"anyOf": [_NUMBER, _text(pattern=f"^(?:{_NUMBER_TEXT})$")]},
        "minProperties": count,
        "maxProperties": count,
    }


TargetField = Annotated[
    tuple[str, float, Literal["yield", "stop"]],
    BeforeValidator(_target),
    _either(_metric_in_target(then=True), _metric_in_target(then=False), examples=[{"loss": 0.05, "then": "stop"}]),
]
BatchField = Annotated[
    Batches,
    BeforeValidator(_batch),
    WithJsonSchema({"type": "string", "pattern": f"^(?:{_BATCH_TEXT})$", "description": "a range such as 32..512"}),
]
PreemptibleField = Annotated[
    Preemptible, BeforeValidator(_preemptible), WithJsonSchema({"enum": ["auto", "true", "false", True, False]})
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


_COUNT = {"minimum": 1, "maximum": MAX_WORKERS}
_WORKERS_SCHEMA = _either(
    {"type": "integer", **_COUNT},
    _text(pattern=f"^(?:{_WORKERS_TEXT})$", description="a range such as 1..4"),
    {
        "type": "object",
        "properties": {
            "min": {"type": "integer", **_COUNT},
            "want": {"type": ["integer", "null"], **_COUNT},
            "max": {"type": ["integer", "null"], **_COUNT},
        },
        "additionalProperties": False,
    },
)
WorkersField = Annotated[WorkersIn, BeforeValidator(plainly(_workers)), _WORKERS_SCHEMA]


def _agreed(workers: WorkersIn) -> Workers:
    return workers.to_domain()


def _each_once(jobs: tuple[int, ...]) -> tuple[JobId, ...]:
    return tuple(JobId(job) for job in dict.fromkeys(jobs))


def _whole(low: int, high: int) -> Any:
    return Annotated[int, Field(strict=True, ge=low, le=high), WHOLE]


def _many(kind: Any, most: int) -> Any:
    several: Any = tuple
    return Annotated[several[kind, ...], Field(max_length=most)]


def check_pattern(text: str) -> str:
    """A user's regular expression may be run over each line of output."""
    plainly(compile_pattern)(text)
    return text


Pattern = Annotated[str, AfterValidator(check_pattern), Field(json_schema_extra={"maxLength": MAX_LENGTH})]
# By the names that `schedulearn.wire.spec` has for them.
KINDS: dict[str, Any] = {
    "addresses": _many(AddressField, 20),
    "batch": BatchField,
    "command": Command,
    "cores": Cores,
    "count": _whole(1, 10**12),
    "cpus": CpuRange,
    "deadline": Deadline,
    "duration": _duration(1, 10 * _YEAR, "30s, 90m, 6h or 1h30m"),
    "env": Env,
    "folder": Annotated[str, OneLine(4096, least=1)],
    "goal": Literal["min", "max"],
    "gpus": _whole(0, 1024),
    "grace": _duration(0, 86400, "30s or 5m"),
    "image": ImageName,
    "jobs": Annotated[_many(_whole(1, MAX_ID), 1000), AfterValidator(_each_once)],
    "launcher": Launcher,
    "line": Line,
    "lines": _many(Annotated[str, OneLine(500, least=1)], 100),
    "model": Annotated[str, OneLine(100, least=1)],
    "pattern": Pattern,
    "preemptible": PreemptibleField,
    "priority": Priority,
    "restarts": _whole(0, 1000),
    "sha256": Annotated[str, SHA256],
    "size": Size,
    "target": TargetField,
    "workers": Annotated[WorkersField, AfterValidator(_agreed)],
}
# Those of a change that are read in another way.
CHANGE_KINDS: dict[str, Any] = {
    "target": Annotated[TargetField, AfterValidator(lambda given: dict(zip(_TARGET, given, strict=True)))],
    "workers": Annotated[
        WorkersIn, BeforeValidator(plainly(_wanted_workers)), _WORKERS_SCHEMA, AfterValidator(WorkersIn.changes)
    ],
}
