"""`logs`: a job's output."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.follow import follow as follow_job
from schedulearn.cli.common.follow import say_left
from schedulearn.cli.common.out import JobOutput, note, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, Raw, option, verb_app
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import why

app = verb_app()


@app.command()
def logs(
    job: Job,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the job ends.")] = False,
    tail: Annotated[int | None, option("N", "Only the last N lines.", "--tail", "-n", min=0)] = None,
    worker: Annotated[int, option("RANK", "Which worker's output.", min=0)] = 0,
    attempt: Annotated[int | None, option("N", "Which attempt. [default: the newest]", min=1)] = None,
    raw: Raw = False,
    as_json: AsJson = False,
) -> int:
    """Show a job's output, byte for byte. With -f, follow it until the job ends.

    On a terminal, colours and progress bars are shown and other control sequences are left out, unless --raw is given.
    A file or a pipe gets every byte.

    \b
    Examples:
      schedulearn logs 17 --tail 50
      schedulearn logs 17 -f
      schedulearn logs 17 --attempt 1 --worker 0
    """
    if follow and as_json:
        raise Failure("--follow and --json do not go together", field="--json", hint="leave one of them out")
    with connect() as client:
        if follow:
            try:
                ended = follow_job(
                    client, job, lambda: client.logs(job, follow=True, tail=tail, worker=worker, attempt=attempt), raw
                )
            except KeyboardInterrupt:
                say_left(job)
                raise
            note(f"[job {job} {ended['state']}{'' if ended['state'] == 'succeeded' else ': ' + why(ended)}]")
            return Code.DONE
        chunks = client.logs(job, tail=tail, worker=worker, attempt=attempt)
        if as_json:
            text = b"".join(chunks).decode("utf-8", "replace")
            say_json({"job": job, "worker": worker, "attempt": attempt, "text": text})
            return Code.DONE
        if not _show(chunks, raw):
            about = client.job(job)
            yet = "" if about["state"] in FINISHED else f" yet; follow it: schedulearn logs {job} -f"
            note(f"job {job} ({about['state']}) has no output{yet}")
    return Code.DONE


def _show(chunks: Iterable[bytes], raw: bool) -> bool:
    """Whether there was anything."""
    output, any_yet = JobOutput(sys.stdout, raw), False
    try:
        for chunk in chunks:
            output.write(chunk)
            any_yet = True
    finally:
        output.close()
    return any_yet
