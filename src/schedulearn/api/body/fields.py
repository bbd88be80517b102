"""How single fields of a body are read: humane forms in, plain values out, errors that say what is allowed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from math import isfinite
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.image import MAX_LENGTH, PATTERN, check_image
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

MAX_ID = 2**53  # the largest integer that every JSON reader keeps exact
MAX_NUMBER = 10**18  # for numbers without bounds of their own: every reader can hold it
MOST_CURVES = 500  # in one answer
DATE_TEXT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_MAX_DEPTH = 20
_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_NOT_KEPT = re.compile("[\0\ud800-\udfff]")
_DATE = re.compile(DATE_TEXT)
# The same rules for the published description.
ONE_LINE: dict[str, Any] = {"pattern": f"^[^{_CONTROLS}]*$"}
ENGINE_ADDRESS: dict[str, Any] = {"pattern": f"^(unix|tcp|ssh)://[^?#{_CONTROLS}]*$"}
KEEPABLE = {"pattern": "^[^\\u0000]*$"}
_YEAR = 365 * 86400.0
T = TypeVar("T")


def invalid(problem: str, allowed: str = "", field: str = "") -> PydanticCustomError:
    """An error that a validator may raise; `field` is a field below the one that is being read."""
    return PydanticCustomError("invalid", "{problem}", {"problem": problem, "allowed": allowed, "field": field})


def plainly(parse: Callable[[Any], T]) -> Callable[[Any], T]:
    """`parse` with the domain's error turned into one that pydantic collects."""

    def validator(value: Any) -> T:
        try:
            return parse(value)
        except InvalidSpec as error:
            raise invalid(error.problem, error.allowed) from None

    return validator


@dataclass(frozen=True)
class Shaped:
    """A text that has to look like this. `Field(pattern=…)` would refuse with the pattern instead of in words."""

    pattern: str
    allowed: str  # the same in words

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "pattern": f"^{self.pattern}$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise invalid(f"{short(text)} is not allowed", self.allowed)
        return text


SHA256 = Shaped("[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits")


class Strict(BaseModel):
    """A body: unknown fields are errors that name the nearest known one, and no text or number is out of bounds."""

    model_config = ConfigDict(extra="forbid")
    takes_nan: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _check_all(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in data:
                if name not in cls.model_fields:
                    raise _unknown(str(name), list(cls.model_fields))
        _check_values(data, cls.takes_nan)
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        _say_keepable(schema.get("properties", {}))
        return schema


def _say_keepable(schema: Any) -> None:
    """Every text of a body is without NUL: said of those that have no narrower form."""
    if isinstance(schema, list):
        for one in schema:
            _say_keepable(one)
    elif isinstance(schema, dict):
        if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "const", "format"}:
            schema.update(KEEPABLE)
        if "patternProperties" in schema:
            schema.setdefault("additionalProperties", False)
        for one in schema.values():
            _say_keepable(one)


def _unknown(name: str, known: list[str]) -> PydanticCustomError:
    hint, allowed = near_to(name, known)
    return invalid(f"there is no such field{hint}", allowed, field=short(name, 100)[1:-1])


def near_to(name: str, known: list[str]) -> tuple[str, str]:
    """For a name that there is not: a question that names the nearest, and what is allowed."""
    near = get_close_matches(name, known, 1)
    return (f"; did you mean {near[0]}?", near[0]) if near else ("", ", ".join(known))


def _check_values(data: Any, takes_nan: bool) -> None:
    """What no field may hold: it could not be stored, or could not be shown."""
    level, depth = [data], 0
    while level:
        if depth > _MAX_DEPTH:
            raise invalid("it is nested too deeply", f"at most {_MAX_DEPTH} levels")
        below: list[Any] = []
        for value in level:
            _check_value(value, takes_nan)
            if isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
        level, depth = below, depth + 1


def _check_value(value: Any, takes_nan: bool) -> None:
    if isinstance(value, str) and _NOT_KEPT.search(value):
        raise invalid("a text has a character that cannot be kept", "text without NUL characters and lone surrogates")
    if isinstance(value, float) and not takes_nan and not isfinite(value):
        raise invalid("a number is not finite", "finite numbers")
    if isinstance(value, int) and not takes_nan and abs(value) > 2**63 - 1:
        raise invalid("a number is too large", "numbers of at most 63 bits")


def whole(value: Any) -> Any:
    """1.0 is a whole number in JSON, and in our description; true and "1" are none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise invalid("it has control characters", "one line of visible characters")
    return text


def bounded(low: float, high: float, unit: str = "") -> Callable[[float], float]:
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
    if isinstance(value, str) and _DATE.fullmatch(value):
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


def _priority(value: Any) -> int:
    found = whole(value)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= 100:
        raise invalid(f"{short(value)} is not a priority", "a whole number, 0 to 100")
    return found


def _size(value: Any) -> int:
    size: int = plainly(lambda text: parse_size(text, ""))(value)
    bounded(1e6, 1e15, " bytes")(size if isinstance(value, str) else value)
    return size


def _humane_json(low: float, high: float, form: str, example: str) -> WithJsonSchema:
    """A number in bounds, or a text. That the amount in the text is in bounds, too, no schema can say."""
    text = {
        "type": "string",
        "maxLength": LONGEST_TEXT,
        "pattern": f"^(?:{form})$",
        "description": f"such as {example}; in the same bounds",
    }
    return WithJsonSchema({"anyOf": [{"type": "number", "minimum": low, "maximum": high}, text]})


Duration = Annotated[
    float,
    BeforeValidator(plainly(lambda value: parse_duration(value, ""))),
    AfterValidator(_bounded_duration(1, 10 * _YEAR)),
    _humane_json(1, 10 * _YEAR, DURATION_TEXT, "30s, 90m, 6h or 1h30m"),
]
Grace = Annotated[
    float,
    BeforeValidator(plainly(lambda value: parse_duration(value, ""))),
    AfterValidator(_bounded_duration(0, 86400)),
    _humane_json(0, 86400, DURATION_TEXT, "30s or 5m"),
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
    AfterValidator(lambda pair: (bounded(0.01, 10_000)(pair[0]), bounded(0.01, 10_000)(pair[1]))),
    _humane_json(0.01, 10_000, RANGE_TEXT, "0.5..4"),
]
Cores = Annotated[
    float,
    Field(strict=True, json_schema_extra={"minimum": 0.01, "maximum": 10_000}),
    AfterValidator(bounded(0.01, 10_000, " cores")),
]
WHOLE = BeforeValidator(whole)  # behind the bounds: pydantic publishes only those that come before it
Priority = Annotated[int, Field(ge=0, le=100), BeforeValidator(_priority)]
ImageName = Annotated[
    str,
    AfterValidator(plainly(check_image)),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "pattern": f"^(?:{PATTERN})$"}),
]
Line = Annotated[str, Field(max_length=200, min_length=1, json_schema_extra=ONE_LINE), AfterValidator(one_line)]


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
