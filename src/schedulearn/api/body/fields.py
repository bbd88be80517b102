"""How single fields of a body are read: humane forms in, plain values out, errors that say what is allowed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
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
from pydantic_core.core_schema import no_info_after_validator_function, str_schema

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.image import MAX_LENGTH, PATTERN, check_image
from schedulearn.core.domain.units import (
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
CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_NOT_KEPT = re.compile("[\0\ud800-\udfff]")
KEEPABLE = {"pattern": "^[^\\u0000]*$"}  # for the published description
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


@dataclass(frozen=True)
class OneLine:
    """A text without control characters, of at most so many others."""

    most: int
    least: int = 0

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = str_schema(max_length=self.most, min_length=self.least or None)
        return no_info_after_validator_function(self._check, text)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "pattern": f"^[^{CONTROLS}]*$"}

    def _check(self, text: str) -> str:
        if re.search(f"[{CONTROLS}]", text):
            raise invalid("it has control characters", "one line of visible characters")
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


def _priority(value: Any) -> int:
    found = whole(value)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= 100:
        raise invalid(f"{short(value)} is not a priority", "a whole number, 0 to 100")
    return found


WHOLE = BeforeValidator(whole)  # behind the bounds: pydantic publishes only those that come before it
Priority = Annotated[int, Field(ge=0, le=100), BeforeValidator(_priority)]
ImageName = Annotated[
    str,
    AfterValidator(plainly(check_image)),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "pattern": f"^(?:{PATTERN})$"}),
]
Line = Annotated[str, OneLine(200, least=1)]
