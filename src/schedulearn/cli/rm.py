"""`rm`: stop jobs if they run, and forget them."""

import sys
from typing import Annotated

import typer

from schedulearn.cli.common.out import say, say_json
from schedulearn.cli.common.service import connect, for_each
from schedulearn.cli.common.verb import AsJson, Jobs, verb_app
from schedulearn.wire.types import FINISHED

app = verb_app()


@app.command()
def rm(
    jobs: Jobs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a job that is not finished.")] = False,
    as_json: AsJson = False,
) -> int:
    """Delete jobs with their output, files and history. A running job is stopped at once.

    On a terminal you are asked before a job that is not finished is removed.

    \b
    Examples:
      schedulearn rm 17
      schedulearn rm --yes 17 18
    """
    with connect() as client:
        if not yes and not as_json and sys.stdin.isatty():
            unfinished = [job for job in jobs if client.job(job)["state"] not in FINISHED]
            if unfinished:
                which = ", ".join(str(job) for job in unfinished)
                typer.confirm(f"Not finished: {which}. Stop and forget?", abort=True)

        def one(job: int) -> int:
            client.delete(job)
            return job

        gone, code = for_each(jobs, one)
    if as_json:
        say_json({"removed": gone})
    else:
        for job in gone:
            say(f"Job {job} removed.")
    return code
