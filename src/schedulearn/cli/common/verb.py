"""What every verb's file is made of: its little Typer app, and the arguments that many verbs have."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from schedulearn.wire.clean import clean

HELP = {"help_option_names": ["-h", "--help"]}


def verb_app() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value; `names` where it is not called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """An option of a verb, as it would stand in its signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(options: Iterable[inspect.Parameter]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A verb that ends in `**given` gets these options in it."""

    def add(verb: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(verb).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *options)]
        verb.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined] # Typer reads it
        return verb

    return add


def complete_jobs(ctx: typer.Context, args: list[str], incomplete: str) -> list[tuple[str, str]]:  # noqa: ARG001
    """Ids of jobs for the shell; nothing if the service does not answer."""
    try:
        from schedulearn.cli.common.service import connect

        with connect(timeout=2.0) as client:
            jobs: list[Any] = list(client.jobs(sort="id", order="desc", limit=50)["jobs"])
    except Exception:
        return []
    return [
        (str(job["id"]), f"{clean(job['name'])} ({job['state']})")
        for job in jobs
        if str(job["id"]).startswith(incomplete)
    ]


def job_id(text: str) -> int:
    """The id of a job; `#17` is forgiven."""
    number = str(text).removeprefix("#")
    if not number.isascii() or not number.isdigit() or not 0 < int(number) < 2**63:
        raise typer.BadParameter(f"{text!r} is not a job id (allowed: a whole number such as 17)")
    return int(number)


Job = Annotated[int, typer.Argument(metavar="JOB", help="The job's id.", parser=job_id, autocompletion=complete_jobs)]
Jobs = Annotated[list[int], typer.Argument(metavar="JOB", help="Job ids.", parser=job_id, autocompletion=complete_jobs)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Raw = Annotated[bool, typer.Option("--raw", help="On a terminal, pass everything through, not only colours.")]
