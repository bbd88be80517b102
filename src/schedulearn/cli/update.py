"""`update`: change a job that is queued or running."""

from typing import TYPE_CHECKING, Annotated, Any

from schedulearn.cli.common.errors import Code, Failure
from schedulearn.cli.common.out import next_steps, of_job, say, say_facts, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, option, verb_app
from schedulearn.wire.drafts import as_number, metric_name, moment
from schedulearn.wire.drafts import target as read_target
from schedulearn.wire.facts import needs, target_words
from schedulearn.wire.words import duration

if TYPE_CHECKING:
    from schedulearn.client import Client

app = verb_app()
_NEVER = ("none", "never", "null", "off")


@app.command()
def update(
    job: Job,
    priority: Annotated[int | None, option("0..100", "Higher goes first.")] = None,
    deadline: Annotated[str | None, option("TIME", "6h, a date, or none.")] = None,
    time_limit: Annotated[str | None, option("DURATION", "8h, 90m, or none.")] = None,
    cpus_limit: Annotated[str | None, option("CORES", "Cores for each worker, from now on: 0.5, or none.")] = None,
    workers: Annotated[str | None, option("N|A..B", "How many it should have, from now on: 2, or 2..6.")] = None,
    target: Annotated[
        str | None,
        option("[NAME=]VALUE[:stop]", "The metric's value that is good enough: loss=0.05, 0.05:stop, or none."),
    ] = None,
    as_json: AsJson = False,
) -> int:
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
    changes: dict[str, int | float | str | dict[str, Any] | None] = {}
    if priority is not None:
        changes["priority"] = priority
    if deadline is not None:
        changes["deadline"] = None if deadline in _NEVER else moment(deadline)
    if time_limit is not None:
        changes["time_limit"] = None if time_limit in _NEVER else as_number(time_limit)
    if cpus_limit is not None:
        changes["cpus_limit"] = None if cpus_limit in _NEVER else as_number(cpus_limit)
    if workers is not None:
        changes["workers"] = as_number(workers)
    if not changes and target is None:
        allowed = "--priority, --deadline, --time-limit, --cpus-limit, --workers, --target"
        raise Failure("nothing to change", allowed=allowed)
    with connect() as client:
        if target is not None:
            changes["target"] = None if target in _NEVER else _target(target, client, job)
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
            ("  workers", needs(changed["spec"]) if workers is not None else ""),
            ("  target", (target_words(changed) or "none") if target is not None else ""),
        ]
    )
    next_steps({"status": f"schedulearn explain {job}"})
    return Code.DONE


def _target(text: str, client: "Client", job: int) -> dict[str, Any]:
    """The metric's name may be left out: then the job is asked for it."""
    name = "" if "=" in text else metric_name(client.job(job)["spec"])
    return read_target(text, name)


def _cores(limit: float | None) -> str:
    """Empty, so that it is not said, unless it was changed."""
    return "" if limit is None else f"{limit:g} for each worker"
