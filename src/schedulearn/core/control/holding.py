"""Why a job has so many workers, and why they are where they are: in words, made when somebody asks."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from schedulearn.core.control.allocation import AllocationPass, Undo
from schedulearn.core.control.cores import CoresPass
from schedulearn.core.control.decide import may_change
from schedulearn.core.control.hysteresis import Hysteresis
from schedulearn.core.control.state import State
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, EPSILON
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.domain.units import format_count, format_duration
from schedulearn.core.policies.stages import Policy

_LITTLE = 0.005  # of its speed: what is less counts as nothing
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class Holding(NamedTuple):
    """What a job has, in words."""

    size: str = ""  # how much, and what would give it more
    place: str = ""  # where, why there, and what a move would need


def holding(state: State, policy: Policy, job: Job, now: float) -> Holding:
    """Of a job that has a place; of one that waits at most what the allocate stage says itself."""
    own = _words_of_stage(state, policy, job, now) if _is_decided(state, job) else None
    if job.state not in (JobState.STARTING, JobState.RUNNING) or not job.placements or job.move is not None:
        return Holding(own or "")
    size = _size(state, policy, job, now)
    return Holding(f"{size} {own}" if own else size, _place(state, policy, job, now))


def _is_decided(state: State, job: Job) -> bool:
    """Whether the next decision may change it."""
    return job.id in state.queue or job.id in state.adjustable[job.shape.pool]


def _words_of_stage(state: State, policy: Policy, job: Job, now: float) -> str | None:
    pool, undo, memory = job.shape.pool, Undo(state.ledger), dict(state.memory)
    running = may_change(policy, state.adjustable[pool])
    state.queue.rekey(now)
    if policy.counts_cores and pool == CPUS:
        allocation: AllocationPass = CoresPass(policy, state.queue, state.ledger, running, now, memory, undo)
    else:
        allocation = AllocationPass(pool, policy, state.queue, state.ledger, running, now, memory, undo, {})
    try:
        return policy.allocate.why(job, allocation)
    finally:
        allocation.end()
        undo.all()


# --- how much


def _size(state: State, policy: Policy, job: Job, now: float) -> str:
    asked, stage = job.shape.workers, policy.stages["allocate"]
    if policy.counts_cores and job.shape.least_cores:
        return _cores(state, job)
    if asked.min == asked.max:
        return f"{_count(job, asked.want)}: it asks for {asked.want * _each(job)}."
    head = f"{job.workers * _each(job)} of {_count(job, asked.max)}"
    if not policy.allocate.elastic:
        return f"{head}: it asks for {asked.want * _each(job)}, and `{stage}` changes no job's size while it runs."
    if job.id not in may_change(policy, state.adjustable[job.shape.pool]):
        return f"{head}: it keeps them until it ends, as {_why_fixed(job)}."
    return f"{head}: {_next(state, policy, job, now)}"


def _cores(state: State, job: Job) -> str:
    asked = max(job.shape.least_cores, math.ceil(job.cpus_asked - EPSILON))
    if job.cores >= asked:
        return f"{format_count(job.cores, 'whole core')}: all that it asks for."
    node = state.ledger.node(job.placements[0].node)
    free = math.floor(node.free_slots(CPUS) + EPSILON) if node else 0
    return (
        f"{job.cores} of {format_count(asked, 'whole core')}: it gets more as cores of "
        f"{job.placements[0].node} become free ({free} are now), and loses none."
    )


def _why_fixed(job: Job) -> str:
    if job.is_preemptible:
        return "its workers are about to end"
    if job.spec.preemptible is Preemptible.AUTO:
        return "it may not be interrupted before a checkpoint of it was seen (`preemptible: auto`)"
    return "it may not be interrupted (`preemptible: false`)"


def _next(state: State, policy: Policy, job: Job, now: float) -> str:
    """What one more would bring, and why it has it not."""
    facts, has = state.facts, job.workers
    speedup = facts.speedup(job)
    source = "measured" if facts.known(job, now).speedup else "assumed, not measured yet"
    if has >= job.shape.workers.max:
        loss = 1 - speedup(has - 1) / speedup(has)
        return f"all that it can use; one fewer would make it {_percent(loss)} slower ({source})."
    gain = _gain(state, job)
    if gain < _LITTLE:
        return f"{_one_more(job)} would bring nothing ({source})."
    head = f"{_one_more(job)} would make it {_percent(gain)} faster ({source})"
    if state.ledger.free_slots(job.shape.pool) >= job.shape.slots - EPSILON:
        return f"{head}. {_why_not_free(state, policy, job, now)}"
    if holder := _cheapest(state, policy, job):
        others = f"; {_compared(state, policy, job, holder, now)}"
    else:
        others = ", and the others have no more than their least, or may not be interrupted"
    return f"{head}{others}.{_when_free(state, job, now)}"


def _gain(state: State, job: Job) -> float:
    speedup = state.facts.speedup(job)
    return speedup(job.workers + 1) / speedup(job.workers) - 1


def _why_not_free(state: State, policy: Policy, job: Job, now: float) -> str:
    free = _amount(job, state.ledger.free_slots(job.shape.pool))
    at = Hysteresis(state, now).again(job, job.workers + 1)
    if at is not None:
        cost = format_duration(state.facts.restart_cost(job))
        return (
            f"{free} free, but a change of its size, which costs it about {cost}, does not pay yet: "
            f"that is looked at again in {format_duration(max(0.0, at - now))}."
        )
    return f"{free} free, which `{policy.stages['allocate']}` gives to no job at present."


def _cheapest(state: State, policy: Policy, job: Job) -> Job | None:
    """Of those who could give one up, the one that loses the smallest part of its speed."""
    able = [
        other
        for other in may_change(policy, state.adjustable[job.shape.pool]).values()
        if other is not job and other.workers > other.shape.workers.min
    ]
    return min(able, key=lambda other: (_worth_of_last(state, other), other.id), default=None)


def _worth_of_last(state: State, job: Job) -> float:
    speedup = state.facts.speedup(job)
    return speedup(job.workers) / speedup(job.workers - 1) - 1 if job.workers > 1 else math.inf


def _compared(state: State, policy: Policy, job: Job, other: Job, now: float) -> str:
    worth = _worth_of_last(state, other)
    last = _ordinal(other.workers)
    words = (
        f"job {other.id} ({other.spec.name}) gains {_percent(worth)} from its {last}"
        if math.isfinite(worth)
        else f"job {other.id} ({other.spec.name}) would not run without its only one"
    )
    mine, its = (_left_at_this_size(state, one, now) for one in (job, other))
    if worth >= _gain(state, job):
        return words
    known = math.isfinite(mine) and math.isfinite(its)
    left = f" ({format_duration(its)} left, this one {format_duration(mine)})" if known else ""
    return f"{words}{left}, which is less, but `{policy.stages['allocate']}` goes by more than that"


def _when_free(state: State, job: Job, now: float) -> str:
    """` The next GPU becomes free in about 20 min, when job 12 ends.`"""
    there = [state.jobs[number] for number in state.attempts if number != job.id and number in state.jobs]
    ends = [(_left_at_this_size(state, one, now), one.id) for one in there if one.shape.pool == job.shape.pool]
    left, first = min(ends, default=(math.inf, 0))
    if not math.isfinite(left):
        return ""
    return f" The next to end is probably job {first}, in about {format_duration(left)}."


def _left_at_this_size(state: State, job: Job, now: float) -> float:
    speedup, workers = state.facts.speedup(job), job.workers
    left = state.facts.remaining(job, now)
    return left * speedup(job.shape.workers.want) / speedup(workers) if workers and math.isfinite(left) else math.inf


# --- where


def _place(state: State, policy: Policy, job: Job, now: float) -> str:
    there = Counter(placement.node for placement in job.placements)
    if len(there) == 1:
        where = f"on {next(iter(there))}"
        return f"{_capital(where)}, where `{policy.stages['place']}` found room{' for all of it' * (job.workers > 1)}."
    where = ", ".join(f"{count} on {name}" for name, count in there.items())
    return f"{where}: {_fewer_nodes(state, policy, job, len(there), now)}"


def _fewer_nodes(state: State, policy: Policy, job: Job, nodes: int, now: float) -> str:
    best = _fewest(state, job)
    if len(best) >= nodes:
        most = f"the most on one is {best[0][1]}, on {best[0][0]}" if best else "no node takes jobs now"
        return f"no fewer nodes have room for its {job.workers} workers ({most})."
    facts, known = state.facts, state.facts.known(job, now)
    gain = 1 / (1 - facts.locality_penalty(job)) - 1
    faster = f" and make it about {_percent(gain)} faster" if len(best) == 1 and gain >= _LITTLE else ""
    source = "measured" if known.locality_penalty else "assumed"
    names = " and ".join(name for name, _ in best)
    head = f"{names} {'has' if len(best) == 1 else 'have'} room for all of its {job.workers} workers now."
    cost = format_duration(facts.restart_cost(job))
    move = f"A move there would cost a restart of about {cost}{faster}{f' ({source})' if faster else ''}"
    if not job.is_preemptible:
        return f"{head} {move}, but {_why_fixed(job)}."
    by = policy.stages.get("migrate", "none")
    who = f"`{by}` moves it when that pays" if policy.migrate else "this policy moves no job by itself"
    by_hand = f", and `schedulearn migrate {job.id} {best[0][0]}` does at once" if len(best) == 1 else ""
    return f"{head} {move}; {who}{by_hand}."


def _fewest(state: State, job: Job) -> Sequence[tuple[str, int]]:
    """The fewest nodes that hold it if it leaves where it is, each with how many workers have room there."""
    undo = Undo(state.ledger)
    try:
        undo.give_back(job.shape, job.placements)
        found, missing = [], job.workers
        for room, node in state.ledger.by_room(job.shape):
            if missing <= 0:
                break
            found.append((str(node.name), min(room, job.workers)))
            missing -= room
        return found
    finally:
        undo.all()


# --- words


def _each(job: Job) -> int:
    """What is counted as one by a user: GPUs, or workers."""
    return job.shape.gpus or 1


def _count(job: Job, workers: int) -> str:
    return format_count(workers * _each(job), "GPU" if job.shape.gpus else "worker")


def _amount(job: Job, slots: float) -> str:
    words = format_count(slots, "GPU" if job.shape.gpus else "core")
    return f"{words} {'is' if slots == 1 else 'are'}"


def _one_more(job: Job) -> str:
    """`a third`; of jobs whose workers have several GPUs each, `2 more`."""
    each = _each(job)
    return f"{each} more" if each > 1 else f"{_article(job.workers + 1)} {_ordinal(job.workers + 1)}"


def _article(number: int) -> str:
    return "an" if number in (8, 11, 18) or 80 <= number < 90 else "a"


def _ordinal(number: int) -> str:
    if number < len(_ORDINALS):
        return _ORDINALS[number]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
