"""Doing one thing to several jobs, and telling what came of it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from schedulearn.cli.common.errors import Code
from schedulearn.cli.common.out import next_steps, of_job, paint, say, say_json
from schedulearn.cli.common.service import connect, for_each
from schedulearn.wire.words import STATE_STYLE

if TYPE_CHECKING:
    from schedulearn.client import Client


def act_on(
    jobs: list[int], act: "Callable[[Client, int], Any]", state: str, as_json: bool, steps: Mapping[str, str]
) -> Code:
    """Each job that will soon be in `state` is named; the service acts in its own time.

    In `steps`, {ids} stands for the jobs that it worked for, {first} for one of them.
    """
    with connect() as client:
        changed, code = for_each(jobs, lambda job: act(client, job))
    if as_json:
        say_json(changed)
        return code
    for job in changed:
        shown = paint(state, STATE_STYLE.get(state, ""))
        say(f"{of_job(job)} {'is' if job['state'] == state else 'will be'} {shown}.")
    if changed:
        ids = " ".join(str(job["id"]) for job in changed)
        next_steps({does: how.format(ids=ids, first=changed[0]["id"]) for does, how in steps.items()})
    return code
