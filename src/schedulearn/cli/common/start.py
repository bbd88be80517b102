"""The options of `up`, and the command line of a service that is started in the background."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from schedulearn.cli.common.verb import option
from schedulearn.service.common.config import Question, questions

_WRITTEN = {Path | None: Path | None, tuple[str, ...]: list[str] | None}  # kinds that are not written as a text


def up_options() -> list[inspect.Parameter]:
    """Made from the fields of the service's options."""
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.asked.usual, annotation=_option(one))
        for one in questions()
    ]


def _option(one: Question) -> Any:
    _, metavar, help, read, _, bounds = one.asked
    if one.kind is bool:
        return Annotated[bool, typer.Option(metavar, help=help)]
    kind = _WRITTEN.get(one.kind, type(one.asked.usual)) if read else one.kind
    return Annotated[kind, option(metavar, help, **bounds)]


def detached_arguments(ctx: typer.Context) -> list[str]:
    """The same command line, for a process in the background. What was not given is not written."""
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if name == "detach" or source is None or source.name != "COMMANDLINE":
            continue
        value = ctx.params[name]
        if isinstance(value, bool):
            words.append(param.opts[0] if value else param.secondary_opts[0])
        else:
            words += [
                word for one in (value if isinstance(value, list) else [value]) for word in (param.opts[0], str(one))
            ]
    return words
