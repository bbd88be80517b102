"""The options that describe a job (`run`, `submit`) or change it (`update`): made from the table of a spec's fields."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from schedulearn.cli.common.verb import complete_jobs, job_id, parameter, with_options
from schedulearn.wire.spec import CHANGES, FIELDS, Field

# What Typer makes of an option's text, by the kind of the field; else it stays a text.
_TYPES: dict[str, Any] = {
    "gpus": int, "priority": int, "restarts": int, "count": int,
    "env": list[str], "lines": list[str], "addresses": list[str], "jobs": list[int],
}  # fmt: skip
_MORE: dict[str, dict[str, Any]] = {"jobs": {"parser": job_id, "autocompletion": complete_jobs}}
_NO_WORKDIR = typer.Option("--no-workdir", help="Copy nothing: run in an empty folder.")


def with_job_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that ends in `**given` gets all options of a job in it."""
    options = [_option(field, field.option.help) for field in FIELDS if field.option]
    return with_options([*options, parameter("no_workdir", Annotated[bool, _NO_WORKDIR], False)])(verb)


def with_changes(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The same with the options of what may be changed."""
    return with_options([_option(field, field.change.help) for field in CHANGES if field.change])(verb)


def _option(field: Field, about: str) -> inspect.Parameter:
    metavar = field.option.metavar if field.option else None
    shown = typer.Option(metavar=metavar, help=about, **_MORE.get(field.kind, {}))
    return parameter(field.name, Annotated[_TYPES.get(field.kind, str) | None, shown])
