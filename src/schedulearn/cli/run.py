"""`run`: submit a command and follow it."""

from typing import Annotated, Any

import typer

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.follow import follow, say_end, say_left
from schedulearn.cli.common.job_options import with_job_options
from schedulearn.cli.common.out import note, note_hint, of_job, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import HELP, AsJson, Raw, verb_app
from schedulearn.cli.submit import Key, say_submitted, submit_once
from schedulearn.wire.drafts import spec_of

app = verb_app()


@app.command(context_settings={**HELP, "allow_interspersed_args": False})
@with_job_options
def run(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="What to run.")] = None,
    follow_it: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Follow the output until the job ends, or return at once.")
    ] = True,
    key: Key = "",
    raw: Raw = False,
    as_json: AsJson = False,
    **given: Any,
) -> int:
    """Run a command as a job and follow it.

    The current folder is copied when you submit (.gitignore is respected), so that editing a file afterwards does
    not change the job. The job's output is shown until it ends. Ctrl-C leaves the job running.
    With --json the job is printed once it has ended, and its output is not shown.

    \b
    Examples:
      schedulearn run -- python train.py --epochs 20
      schedulearn run --name mnist --gpus 1 --memory 4GB --env LR=0.1 -- python train.py
    """
    if not command:
        raise Failure("no command given", hint="write it after --: schedulearn run -- python train.py")
    with connect() as client:
        job = submit_once(client, spec_of(given, command), key)
        number = job["id"]
        if not follow_it:
            return say_submitted(job, as_json)
        try:
            if as_json:
                ended: Any = client.wait(number)
                say_json(ended)
                return Code.DONE if ended["state"] == "succeeded" else Code.JOB_FAILED
            note(f"{of_job(job)} submitted. Ctrl-C leaves it running.")
            note_hint(job)
            return say_end(follow(client, number, lambda: client.logs(number, follow=True), raw))
        except KeyboardInterrupt:
            if not as_json:
                say_left(number)
            raise
