"""What every verb's file is made of: its little Typer app, and the arguments that many verbs have."""

from typing import Annotated, Any

import typer

from schedulearn.wire.clean import clean

HELP = {"help_option_names": ["-h", "--help"]}


def verb_app() -> typer.Typer:
    """The Typer app of one verb's file."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )


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
        raise typer.BadParameter(f"{text!r} is not the id of a job (allowed: a whole number such as 17)")
    return int(number)


Job = Annotated[int, typer.Argument(metavar="JOB", help="The job's id.", parser=job_id, autocompletion=complete_jobs)]
Jobs = Annotated[
    list[int], typer.Argument(metavar="JOB", help="Ids of jobs.", parser=job_id, autocompletion=complete_jobs)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="On a terminal, pass on everything that the job writes, not its colours alone.")
]
