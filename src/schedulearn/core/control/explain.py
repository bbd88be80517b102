"""Why a job waits, or has what it has, as a sentence. Made when somebody asks, never in the cycle."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedulearn.core.control import live_resize, targets
from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.decide import decide
from schedulearn.core.control.forecast import Remaining, forecast_starts
from schedulearn.core.control.holding import holding
from schedulearn.core.control.state import State
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job, Move
from schedulearn.core.domain.node import NodeState
from schedulearn.core.domain.outcome import Outcome
from schedulearn.core.domain.resources import CPUS, GPUS, MEMORY
from schedulearn.core.domain.shape import Shape
from schedulearn.core.domain.spec import STOP
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.core.domain.units import format_count, format_duration, format_size
from schedulearn.core.estimate.remaining import Estimate
from schedulearn.core.policies.stages import HeldBehind, Policy, Refusal


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is where it is."""

    text: str  # one or two sentences
    position: int | None = None  # in the queue, 1 for the first
    estimate: Estimate | None = None  # seconds until it starts
    stage: str | None = None  # the stage that decided
    size: str = ""  # why it has so many workers, and what would give it more
    place: str = ""  # why they are where they are, and what a move would need


LookAhead = Callable[[Sequence[Job]], Mapping[JobId, Estimate]]  # seconds until these jobs start, where that is known


def explain(state: State, policy: Policy, job: Job, now: float, remaining: Remaining) -> Explanation:
    def look_ahead(jobs: Sequence[Job]) -> Mapping[JobId, Estimate]:
        return forecast_starts(state, policy, jobs, now, remaining)

    return explain_one(state, policy, job, now, look_ahead)


def explain_one(state: State, policy: Policy, job: Job, now: float, look_ahead: LookAhead) -> Explanation:
    """With what it has, for who wants to know of this job alone."""
    found = explain_all(state, policy, [job], now, look_ahead)[0]
    return replace(found, **holding(state, policy, job, now)._asdict())


def explain_all(
    state: State, policy: Policy, jobs: Sequence[Job], now: float, look_ahead: LookAhead
) -> list[Explanation]:
    """One for each: by one decision, and one look ahead, for all of them."""
    known = {job.id: _beside_the_queue(state, job, now) for job in jobs}
    queued = [job for job in jobs if known[job.id] is None]
    if queued:
        known |= _in_the_queue(state, policy, queued, now, look_ahead)
    return [why for job in jobs if (why := known[job.id])]


def _beside_the_queue(state: State, job: Job, now: float) -> Explanation | None:
    """None: it waits in the queue, so a decision must tell."""
    if job.move is not None:
        return Explanation(_on_the_move(job, job.move), stage="migrate")
    if job.state is not JobState.QUEUED:
        return Explanation(_not_queued(job, now) + _comings_and_goings(state, job, now) + _aim(job, now))
    if waits := state.waits_for.get(job.id):
        return Explanation(_waits_for(state, sorted(waits)), stage="dependencies")
    if job.not_before > now:
        return Explanation(_backing_off(job, now), stage="back-off")
    if job.placements:
        return Explanation("Its place is being freed: it starts as soon as others have left.", stage="reconcile")
    if job.id not in state.queue:
        return Explanation("It has only just been put into the queue.")
    return None


def _in_the_queue(
    state: State, policy: Policy, jobs: Sequence[Job], now: float, look_ahead: LookAhead
) -> dict[JobId, Explanation]:
    shapes = {job.shape for job in jobs}
    decision = decide(policy, state.queue, state.ledger, state.adjustable, now, state.memory, shown=shapes)
    starting = {grant.job for grant in decision.grants}
    positions = state.queue.positions(jobs)
    waiting = [job for job in jobs if job.id not in starting]
    # When others end says little where nobody waits for that.
    turns = policy.order.takes_turns
    starts = look_ahead(waiting) if waiting and not turns else {}
    explained = {}
    for job in jobs:
        position = positions[job.id]
        if job.id in starting:
            text = f"It {'goes on' if job.suspended_at else 'starts'} now."
            explained[job.id] = Explanation(text, position, Estimate(0, 0, 0), "place")
            continue
        text, stage = _suspended(state, job) if job.suspended_at else _why(state, policy, decision, job)
        text += _aim(job, now)
        when = f"{_place_in(position)}: its turn comes after theirs." if turns else _when(position, starts.get(job.id))
        explained[job.id] = Explanation(f"{text} {when}", position, starts.get(job.id), stage)
    return explained


def _on_the_move(job: Job, move: Move) -> str:
    source, target = (", ".join(sorted(names)) for names in ({*move.source}, {placement.node for placement in move.to}))
    how = {
        JobState.QUEUED: "it starts there as soon as others have left",
        JobState.STARTING: "its workers are being started",
    }
    return f"It moves from {source} to {target}: {how.get(job.state, 'it is being stopped where it was')}."


def _not_queued(job: Job, now: float) -> str:
    ran = format_duration(job.ran.at(now))
    texts = {
        JobState.STARTING: "Its workers are being started.",
        JobState.RUNNING: f"It has run for {ran}.",
        JobState.PAUSED: f"It is held: {job.reason}. Resume it to go on.",
        JobState.STOPPING: f"It is being stopped: {job.reason}.",
        JobState.SUCCEEDED: f"It ran for {ran}.",
        JobState.FAILED: f"The cause: {job.reason}.",
        JobState.CANCELLED: f"The cause: {job.reason}.",
    }
    return texts[job.state]


def _comings_and_goings(state: State, job: Job, now: float) -> str:
    """` 1 worker is leaving. It may grow again in 20 s: it lost a worker.`"""
    attempt = state.attempts.get(job.id) if job.spec.resizes_live and job.state is JobState.RUNNING else None
    if attempt is None:
        return ""
    text, leaving, wait = "", len(attempt.leavers), live_resize.may_grow_at(state, attempt) - now
    if leaving:
        text += f" {leaving} worker{'s are' if leaving > 1 else ' is'} leaving."
    if wait > 0 and len(attempt.crew) < job.shape.workers.max:
        text += f" It may grow again in {format_duration(wait)}: it lost a worker."
    return text


def _aim(job: Job, now: float) -> str:
    """` It reached its target (loss at most 0.05) 3 min ago: others go first.`"""
    target = job.spec.target
    if target is None or job.state in FINISHED or job.state is JobState.STOPPING:
        return ""
    aim = f"{job.spec.metric.name} {targets.in_words(job.spec)}"
    if job.reached_at is not None:
        return f" It reached its target ({aim}) {format_duration(now - job.reached_at)} ago: others go first."
    return f" Its target is {aim}: then {'it ends' if target.then == STOP else 'others go first'}."


def _waits_for(state: State, others: list[JobId]) -> str:
    named = [f"job {i} ({state.jobs[i].spec.name}, {state.jobs[i].state})" for i in others if i in state.jobs]
    return f"It waits for {', '.join(named)} to finish."


def _backing_off(job: Job, now: float) -> str:
    outcome: Outcome | None = job.outcome
    after = f" after its last attempt ended with: {outcome.words()}" if outcome else ""
    wait = format_duration(job.not_before - now)
    return f"It is tried again in {wait}{after} (restart {job.restarts} of {job.spec.max_restarts})."


def _why(state: State, policy: Policy, decision: Decision, job: Job) -> tuple[str, str]:
    head, refusal = decision.refusals.get(job.shape, (job.id, None))
    if policy.counts_cores and job.shape.least_cores:
        asked = max(job.shape.least_cores, math.ceil(job.cpus_asked))
        text = f"It asks for {format_count(asked, 'whole core')} of one node, and {policy.stages['allocate']} gives"
        return f"{text} it none yet; {_most_free(state, job.shape)}.", refusal.stage if refusal else "allocate"
    if head != job.id:
        reason, stage = _refusal(state, refusal, job.shape)
        return f"Job {head}, which asks for the same and goes first, waits too: {reason}.", stage
    reason, stage = _refusal(state, refusal, job.shape)
    return f"It {reason}.", stage


def _suspended(state: State, job: Job) -> tuple[str, str]:
    """`It is suspended on gpu1, where it keeps its memory; job 7 (bert) is in its place.`"""
    nodes = ", ".join(sorted({placement.node for placement in job.suspended_at}))
    there = [f"job {other.id} ({other.spec.name})" for other in state.jobs.values() if _in_place_of(other, job)]
    others = (
        f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} in its place" if there else "its place is not free"
    )
    return f"It is suspended on {nodes}, where it keeps its memory and will go on; {others}.", "order"


def _in_place_of(other: Job, job: Job) -> bool:
    """Whether `other` has what the suspended job needs to go on: a device of it, or slots on its nodes."""
    if other.shape.pool != job.shape.pool or other is job:
        return False
    if devices := {device for placement in job.suspended_at for device in placement.devices}:
        return any(device in devices for placement in other.placements for device in placement.devices)
    return any(placement.node in {mine.node for mine in job.suspended_at} for placement in other.placements)


def _refusal(state: State, refusal: Refusal | None, shape: Shape) -> tuple[str, str]:
    if isinstance(refusal, HeldBehind):
        return f"would fit, but job {refusal.job} goes first and has waited long", refusal.stage
    return f"needs {needs(shape)}; {_most_free(state, shape)}", refusal.stage if refusal else "allocate"


def needs(shape: Shape) -> str:
    """`4 GPUs and 2 cores on one node`, `3 workers with 1 core each`."""
    amounts = shape.per_worker
    kind = f" of type {shape.gpu_type}" if shape.gpu_type else ""
    parts = []
    if shape.gpus:
        parts.append(format_count(shape.gpus, "GPU") + kind)
    if amounts[CPUS]:
        parts.append(format_count(amounts[CPUS], "core"))
    if amounts[MEMORY]:
        parts.append(f"{format_size(amounts[MEMORY])} of memory")
    each = " and ".join(parts) or "a node"
    where = "one node that runs containers" if shape.container else "one node"
    return f"{each} on {where}" if shape.workers.want == 1 else f"{shape.workers.want} workers with {each} each"


def _most_free(state: State, shape: Shape) -> str:
    up = [n for n in state.ledger if n.node.state is NodeState.UP]
    able = [n for n in up if shape.suits(n.node)]
    if not able:
        none = "no node that runs it takes jobs at present" if up else "no node takes jobs at present"
        troubled = [n.node for n in state.ledger if n.node.state is NodeState.PAUSED and shape.suits(n.node)]
        return none + (f" ({', '.join(f'{node.name}: {node.problem}' for node in troubled)})" if troubled else "")
    best = max(able, key=lambda n: n.part_free(shape))
    scarce = min(shape.per_worker, key=lambda name: best.free[name] / shape.per_worker[name])
    free = best.free[scarce]
    words = {
        CPUS: format_count(free, "core"),
        GPUS: format_count(free, "GPU"),
        MEMORY: f"{format_size(max(0.0, free))} of memory",
    }
    return f"the most free on one node is {words.get(scarce, f'{free:g} {scarce}')}"


def _when(position: int, estimate: Estimate | None) -> str:
    place = _place_in(position)
    if estimate is None:
        return f"{place}; too little is known yet to say when it starts."
    return f"{place}; it probably starts in about {format_duration(estimate.expected)}."


def _place_in(position: int) -> str:
    return "It is first in the queue" if position == 1 else f"It is number {position} in the queue"
