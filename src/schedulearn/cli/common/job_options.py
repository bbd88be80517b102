"""The options that describe a job, shared by `run` and `submit`: made from the table of a spec's fields."""

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from schedulearn.cli.common.verb import complete_jobs, job_id
from schedulearn.wire.spec import FIELDS, Field, Option

# What Typer makes of an option's text, by the kind of the field; else it stays a text.
_TYPES: dict[str, Any] = {
    "gpus": int, "priority": int, "restarts": int, "count": int,
    "env": list[str], "lines": list[str], "addresses": list[str], "jobs": list[int],
}  # fmt: skip
_MORE: dict[str, dict[str, Any]] = {"jobs": {"parser": job_id, "autocompletion": complete_jobs}}
_NO_WORKDIR = typer.Option("--no-workdir", help="Copy nothing: run in an empty folder.")


def with_job_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that ends in `**given` gets all options of a job in it."""
    own = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(verb).parameters.values()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    verb.__signature__ = inspect.Signature([*own, *_parameters()])  # type: ignore[attr-defined] # Typer reads it
    return verb


def _parameters() -> Iterator[inspect.Parameter]:
    for field in FIELDS:
        if field.option:
            yield _parameter(field.name, _annotation(field, field.option), None)
    yield _parameter("no_workdir", Annotated[bool, _NO_WORKDIR], False)


def _annotation(field: Field, option: Option) -> Any:
    shown = typer.Option(metavar=option.metavar, help=option.help, **_MORE.get(field.kind, {}))
    return Annotated[_TYPES.get(field.kind, str) | None, shown]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
