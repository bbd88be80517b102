"""`update`: change a job that is queued or running."""

from typing import Any

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.job_options import with_changes
from schedulearn.cli.common.out import next_steps, of_job, say, say_facts, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, verb_app
from schedulearn.wire.drafts import changes_of
from schedulearn.wire.facts import needs, target_words
from schedulearn.wire.spec import CHANGES, option_of
from schedulearn.wire.words import duration

app = verb_app()


@app.command()
@with_changes
def update(job: Job, as_json: AsJson = False, **given: Any) -> int:
    """Change the priority, deadline, limits, number of workers or target of a queued or running job.

    \b
    Examples:
      schedulearn update 17 --priority 80
      schedulearn update 17 --time-limit 12h --deadline none
      schedulearn update 17 --cpus-limit 0.5
      schedulearn update 17 --workers 2
      schedulearn update 17 --workers 2..6
      schedulearn update 17 --target loss=0.05:stop
    """
    if all(value is None for value in given.values()):
        raise Failure("nothing to change", allowed=", ".join(option_of(field.path) for field in CHANGES))
    with connect() as client:
        # The metric's name may be left out of a target: then the job is asked for it.
        spec = client.job(job)["spec"] if "=" not in (given["target"] or "=") else {}
        changes = changes_of(given, spec)
        changed = client.update(job, **changes)
    if as_json:
        say_json(changed)
        return Code.DONE
    say(f"{of_job(changed)} updated.", "green")
    say_facts(
        [
            ("  priority", str(changed["priority"])),
            ("  deadline", changed["deadline"] or "none"),
            ("  time limit", duration(changed["time_limit"]) or "none"),
            ("  cores", _cores(changed["cpus_limit"])),
            ("  workers", needs(changed["spec"]) if "workers" in changes else ""),
            ("  target", (target_words(changed) or "none") if "target" in changes else ""),
        ]
    )
    next_steps({"status": f"schedulearn explain {job}"})
    return Code.DONE


def _cores(limit: float | None) -> str:
    """Empty, so that it is not said, unless it was changed."""
    return "" if limit is None else f"{limit:g} for each worker"
