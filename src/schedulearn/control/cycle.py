"""One cycle of the control loop, without I/O."""

from collections.abc import Iterable

from schedulearn.control.apply import apply
from schedulearn.control.decide import Decision, decide
from schedulearn.control.reconcile import reconcile
from schedulearn.control.state import State
from schedulearn.domain.events import Event, Tick
from schedulearn.policies.stages import Memory, Policy


def run_cycle(state: State, policy: Policy, events: Iterable[Event], now: float, memory: Memory) -> Decision:
    """Apply all events of this instant, then decide once. What follows from it is in `state.changes`.

    The changes are written to the store before their commands are carried out; each effect comes back
    as an event of a later cycle.
    """
    apply_all(state, events, now)
    return plan(state, policy, now, memory)


def apply_all(state: State, events: Iterable[Event], now: float) -> None:
    for event in events:
        apply(state, event)
    apply(state, Tick(now))


def plan(state: State, policy: Policy, now: float, memory: Memory) -> Decision:
    """Decide, and reconcile the decision into leases, attempts and commands; BadPlan changes nothing."""
    decision = decide(policy, state.queue, state.ledger, now, memory)
    reconcile(state, decision, now)
    return decision


def next_wake(state: State, decision: Decision) -> float | None:
    """When to run a cycle although nothing happened."""
    times = [t for t in (state.next_timer(), decision.wake_at) if t is not None]
    return min(times, default=None)
