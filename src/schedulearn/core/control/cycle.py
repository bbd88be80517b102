"""One cycle of the control loop, without I/O."""

from collections.abc import Iterable, Iterator

from schedulearn.core.control.allocation import Decision
from schedulearn.core.control.apply import apply
from schedulearn.core.control.decide import decide
from schedulearn.core.control.hysteresis import Hysteresis
from schedulearn.core.control.migrate import Board, migrate
from schedulearn.core.control.reconcile import nothing_to_decide, reconcile, start_ready
from schedulearn.core.control.state import State
from schedulearn.core.control.turns import Unsettled
from schedulearn.core.domain.commands import (
    Command,
    PauseAttempt,
    PauseWorker,
    ResumeAttempt,
    ResumeWorker,
    StopAttempt,
    StopWorker,
)
from schedulearn.core.domain.events import Event, Tick
from schedulearn.core.policies.stages import Policy


def apply_all(state: State, events: Iterable[Event], now: float) -> None:
    for event in events:
        apply(state, event)
    apply(state, Tick(now))


def plan(state: State, policy: Policy, now: float) -> Decision | None:
    """Decide, and reconcile the decision into promises, attempts and commands; BadPlan changes nothing.

    None: nothing has happened since the last decision that could make a difference.
    """
    if state.pending or state.growing:
        start_ready(state, now)
    decide_now = state.stale or _is_due(state.wake_at, now)
    if not decide_now and not _is_due(state.migrate_at, now):
        return None
    decision = _decide(state, policy, now) if decide_now else None
    state.migrate_at = migrate(state, policy.migrate, policy.stages["migrate"], now) if policy.migrate else None
    return decision


def _is_due(at: float | None, now: float) -> bool:
    return at is not None and now >= at


def _decide(state: State, policy: Policy, now: float) -> Decision | None:
    if not state.queue and not policy.allocate.elastic:
        nothing_to_decide(state, now)
        state.watch_turns(now)
        return None
    if policy.place.surveys:
        state.memory = dict(state.memory)
        policy.place.survey(Board(state, now), state.memory)
    hysteresis = Hysteresis(state, now)
    decision = decide(
        policy,
        state.queue,
        state.ledger,
        state.adjustable,
        now,
        state.memory,
        hysteresis=hysteresis,
        unsettled=Unsettled(state.unsettled, state.there, state.places)
        if state.unsettled is not None and not _is_due(state.wake_at, now)
        else None,
        keep=True,
    )
    reconcile(state, decision, now)
    state.watch_turns(now)
    return decision


def next_wake(state: State) -> float | None:
    """When to run a cycle although nothing happened."""
    times = [t for t in (state.next_timer(), state.wake_at, state.migrate_at) if t is not None]
    return min(times, default=None)


def to_each_worker(state: State, commands: Iterable[Command]) -> Iterator[Command]:
    """What is said to an attempt is said to each of its workers; all other commands are as they were."""
    for command in commands:
        if not isinstance(command, StopAttempt | PauseAttempt | ResumeAttempt):
            yield command
            continue
        attempt = state.attempts.get(command.attempt.job)
        if attempt is None or attempt.id != command.attempt:
            continue  # it has ended since
        for worker in attempt.members if isinstance(command, PauseAttempt) else attempt.running:
            if isinstance(command, StopAttempt):
                yield StopWorker(worker.id, worker.node, command.grace)
            else:
                yield (PauseWorker if isinstance(command, PauseAttempt) else ResumeWorker)(worker.id, worker.node)
