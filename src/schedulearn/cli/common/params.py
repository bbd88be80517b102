"""`--param KEY=VALUE`: the parameters of a policy."""

import json
from pathlib import Path
from typing import Annotated, Any

from schedulearn.cli.common.errors import Failure
from schedulearn.cli.common.verb import option

PARAM = ("KEY=VALUE", "A parameter; KEY=@FILE takes numbers from a file, one a line. Repeatable.")
Params = Annotated[list[str] | None, option(*PARAM)]


def params_of(given: list[str]) -> dict[str, Any]:
    """`a=1 b=text c=@FILE`, each by its name."""
    params: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise Failure(f"{item!r} is not a parameter", field="--param", allowed="KEY=VALUE")
        params[key] = _value(key, value)
    return params


def _value(key: str, text: str) -> Any:
    if text.startswith("@"):
        return _numbers(key, Path(text[1:]))
    try:
        return json.loads(text)
    except ValueError:
        return text


def _numbers(key: str, file: Path) -> tuple[float, ...]:
    from schedulearn.lab.traces.numbers import BadNumbers, read_numbers

    try:
        return read_numbers(file)
    except BadNumbers as error:
        raise Failure(error.problem, field=f"--param {key}", allowed=error.allowed) from error
