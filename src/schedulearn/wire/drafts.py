"""A spec from what was given as options, or filled into the form; the service judges what it says."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from schedulearn.wire.spec import CHANGES, FIELDS, PARTS

Spec = dict[str, Any]
_NUMBERS = ("workers", "cpus", "cores", "duration", "grace")  # kinds that are numbers or texts

_NEVER = ("none", "never", "null", "off")


class Unreadable(Exception):
    """An option that cannot be read: `field` is its name, `allowed` what would be right."""

    def __init__(self, problem: str, field: str, allowed: str) -> None:
        super().__init__(problem)
        self.problem, self.field, self.allowed = problem, field, allowed


def spec_of(given: Mapping[str, Any], command: list[str], base: Spec | None = None) -> Spec:
    """The spec: what the file says (`base`), with what the options say put over it."""
    spec: Spec = {key: dict(value) if isinstance(value, Mapping) else value for key, value in (base or {}).items()}
    if command:
        spec["command"] = command[0] if len(command) == 1 else command
    for field in FIELDS:
        value = given.get(field.name)
        if field.option and value is not None and value != []:
            _put(spec, field.path, _value(field.kind, value, spec))
    if given.get("no_workdir"):
        spec["workdir"] = None
    return spec


def changes_of(given: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """What `update` is to change: None takes a thing away."""
    return {
        field.path: None if field.change.removable and value in _NEVER else _value(field.kind, value, spec)
        for field in CHANGES
        if field.change and (value := given.get(field.name)) is not None
    }


def _put(spec: Spec, path: str, value: object) -> None:
    part, _, name = path.rpartition(".")
    if not part:
        spec[name] = value
        return
    inner = spec.get(part)
    if not isinstance(inner, dict):
        # `metric: loss` in a file is short for its name.
        inner = spec[part] = {PARTS[part].short: inner} if isinstance(inner, str) else {}
    inner[name] = value


def _value(kind: str, value: Any, spec: Spec) -> Any:
    if kind in _NUMBERS:
        return as_number(value)
    if kind == "deadline":
        return moment(value)
    if kind == "target":
        return target(value, metric_name(spec))
    return {**(spec.get("env") or {}), **_variables(value)} if kind == "env" else value


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
        raise Unreadable(f"{text!r} is not a target", "--target", allowed) from None
    return {name.strip() or metric: value, **({"then": then} if then else {})}


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
            allowed = "NAME=VALUE, or NAME to take the value it has here"
            raise Unreadable(f"{item!r} does not begin with a variable's name", "--env", allowed)
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
