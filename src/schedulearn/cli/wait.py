"""`wait`: until jobs have ended."""

import time
from typing import Annotated, Any

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.follow import say_outcome
from schedulearn.cli.common.out import say_json
from schedulearn.cli.common.service import connect, for_each
from schedulearn.cli.common.verb import AsJson, Jobs, option, verb_app

app = verb_app()


@app.command()
def wait(
    jobs: Jobs,
    timeout: Annotated[
        float | None, option("SECONDS", "Give up after this long; the jobs keep running.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Wait until jobs have finished. The exit code is 0 if all succeeded, 1 if one did not.

    \b
    Examples:
      schedulearn wait 17
      schedulearn wait 17 18 19 && echo all good
    """
    from schedulearn.client import WaitTimeout

    end = None if timeout is None else time.monotonic() + timeout
    with connect() as client:

        def one(job: int) -> Any:
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                ended = client.wait(job, timeout=left)
            except WaitTimeout:  # it was given what was left
                raise WaitTimeout(f"job {job} did not end within {timeout:g} seconds; it goes on") from None
            if not as_json:
                say_outcome(ended)
            return ended

        ended, code = for_each(jobs, one)
    if as_json:
        say_json(ended)
    return code or (Code.DONE if all(job["state"] == "succeeded" for job in ended) else Code.JOB_FAILED)
