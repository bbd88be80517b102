"""`explain`: why a job waits, and when it may start; why it has so many workers, and why there."""

from schedulearn.cli.common.out import next_steps, paint, say, say_facts, say_json
from schedulearn.cli.common.service import connect
from schedulearn.cli.common.verb import AsJson, Job, verb_app
from schedulearn.wire.clean import clean
from schedulearn.wire.types import FINISHED
from schedulearn.wire.words import STATE_STYLE, Json, duration, errors_in_words

app = verb_app()
_AUXILIARY = {"succeeded": "has", "failed": "has", "cancelled": "was"}  # else "is"


@app.command()
def explain(job: Job, as_json: AsJson = False) -> None:
    """Explain why a job is waiting, and when it may start; or why it has its size and its place.

    \b
    Example:
      schedulearn explain 17
    """
    with connect() as client:
        answer = client.explain(job)
    if as_json:
        say_json(answer)
        return
    state, position = answer["state"], answer.get("position")
    say(f"Job {job} {_AUXILIARY.get(state, 'is')} {paint(state, STATE_STYLE.get(state, ''))}. {clean(answer['text'])}")
    say_facts(
        [
            ("place in the queue", str(position) if position else ""),
            ("may start", _start(answer.get("estimate"))),
            *((f"estimates by {clean(one['source'])}", errors_in_words(one)) for one in answer["errors"]),
            ("size", clean(answer.get("size") or "")),
            ("place", clean(answer.get("place") or "")),
        ]
    )
    if state == "queued":
        # A job that is first, or waits for something else than a place, gains nothing by a priority.
        push = {"raise its priority": f"schedulearn update {job} --priority 80"} if position and position > 1 else {}
        next_steps({**push, "what is running": "schedulearn top"})
    else:
        next_steps({"details": f"schedulearn describe {job}", "its output": _logs(job, state)})


def _logs(job: int, state: str) -> str:
    return f"schedulearn logs {job}" + ("" if state in FINISHED else " -f")


def _start(estimate: Json | None) -> str:
    if not estimate or estimate.get("start_seconds") is None:
        return ""
    low, high = estimate.get("low"), estimate.get("high")
    spread = f" (between {duration(low)} and {duration(high)})" if low is not None and high is not None else ""
    return f"in about {duration(estimate['start_seconds'])}{spread}"
