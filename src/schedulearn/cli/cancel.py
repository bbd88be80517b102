"""`cancel`: stop jobs."""

from schedulearn.cli.common.act import act_on
from schedulearn.cli.common.verb import AsJson, Jobs, verb_app

app = verb_app()


@app.command()
def cancel(jobs: Jobs, as_json: AsJson = False) -> int:
    """Stop jobs. Each has its grace period to save and end, then its whole process tree is killed.

    What is known of a job (its story, output and files) stays; `rm` forgets it.

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
        {"wait for the end": "schedulearn wait {ids}", "forget it": "schedulearn rm {ids}"},
    )
