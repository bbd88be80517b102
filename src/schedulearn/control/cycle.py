"""One cycle of the control loop, without I/O."""

from collections.abc import Iterable

from schedulearn.control.apply import apply
from schedulearn.control.contest import Decision
from schedulearn.control.decide import decide
from schedulearn.control.reconcile import nothing_to_decide, reconcile, start_ready
from schedulearn.control.state import State
from schedulearn.domain.events import Event, Tick
from schedulearn.policies.stages import Policy


def run_cycle(state: State, policy: Policy, events: Iterable[Event], now: float) -> Decision | None:
    """Apply all events of this instant, then decide once. What follows from it is in `state.changes`.

    The changes are written to the store before their commands are carried out; each effect comes back
    as an event of a later cycle.
    """
    apply_all(state, events, now)
    return plan(state, policy, now)


def apply_all(state: State, events: Iterable[Event], now: float) -> None:
    for event in events:
        apply(state, event)
    apply(state, Tick(now))


def plan(state: State, policy: Policy, now: float) -> Decision | None:
    """Decide, and reconcile the decision into promises, attempts and commands; BadPlan changes nothing.

    None: nothing has happened since the last decision that could make a difference.
    """
    if state.pending:
        start_ready(state, now)
    if not state.stale and (state.wake_at is None or now < state.wake_at):
        return None
    if not state.queue and not policy.allocate.elastic:
        nothing_to_decide(state, now)
        state.watch_turns(now)
        return None
    decision = decide(policy, state.queue, state.ledger, state.holders, now, state.memory)
    reconcile(state, decision, now)
    state.watch_turns(now)
    return decision


def next_wake(state: State) -> float | None:
    """When to run a cycle although nothing happened."""
    times = [t for t in (state.next_timer(), state.wake_at) if t is not None]
    return min(times, default=None)
