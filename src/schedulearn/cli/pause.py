"""`pause`: suspend jobs."""

from schedulearn.cli.common.act import act_on
from schedulearn.cli.common.verb import AsJson, Jobs, verb_app

app = verb_app()


@app.command()
def pause(jobs: Jobs, as_json: AsJson = False) -> int:
    """Suspend running jobs, or hold queued ones. A suspended job keeps its memory and its devices.

    \b
    Example:
      schedulearn pause 17
    """
    return act_on(
        jobs, lambda client, job: client.pause(job), "paused", as_json, {"resume": "schedulearn resume {ids}"}
    )
