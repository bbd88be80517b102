"""`resume`: resume paused jobs."""

from schedulearn.cli.common.act import act_on
from schedulearn.cli.common.verb import AsJson, Jobs, verb_app

app = verb_app()


@app.command()
def resume(jobs: Jobs, as_json: AsJson = False) -> int:
    """Resume paused jobs.

    \b
    Example:
      schedulearn resume 17
    """
    return act_on(
        jobs,
        lambda client, job: client.resume(job),
        "running",
        as_json,
        {"details": "schedulearn describe {first}"},
    )
