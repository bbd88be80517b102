"""The queue as it is, and what is known of its jobs, for a process that looks ahead."""

from collections.abc import Callable
from dataclasses import replace

from schedulearn.core.control.present import Outlook, Present
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.states import FINISHED
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import Store


def present_of(store: Store, now: float, has_checkpoint: Callable[[JobId], bool]) -> Present:
    """What the jobs run, and with which variables, is left out."""
    saved, facts = store.load_state(), LiveFacts(store)
    jobs = [job for job in saved.jobs if job.state not in FINISHED]
    outlook = {job.id: _outlook(facts, job, now) for job in jobs}
    for job in jobs:
        job.spec = replace(job.spec, command="", env={})
        job.checkpointed = has_checkpoint(job.id)
    return Present(now, saved.policy, jobs, saved.attempts, saved.leases, saved.nodes, saved.memory, outlook)


def _outlook(facts: LiveFacts, job: Job, now: float) -> Outlook:
    return Outlook(
        facts.estimate(job, now),
        facts.speedup(job),
        facts.restart_cost(job),
        facts.locality_penalty(job),
        facts.known(job, now),
    )
