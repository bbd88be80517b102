"""`cancel`: stop jobs."""

from schedulearn.cli.common.act import act_on
from schedulearn.cli.common.verb import AsJson, Jobs, verb_app

app = verb_app()


@app.command()
def cancel(jobs: Jobs, as_json: AsJson = False) -> int:
    """Cancel jobs. Each has its grace period to save and exit, then its whole process tree is killed.

    The job's history, output and files are kept; `rm` deletes them.

    \b
    Examples:
      schedulearn cancel 17
      schedulearn cancel 17 18 19
    """
    return act_on(
        jobs,
        lambda client, job: client.cancel(job),
        "cancelled",
        as_json,
        {"wait for it to end": "schedulearn wait {ids}", "remove it": "schedulearn rm {ids}"},
    )
