"""How long a job still takes, from the best that is known of it: its steps, its loss curve, jobs like it."""

from dataclasses import dataclass, field

from schedulearn.core.estimate.features import Features
from schedulearn.core.estimate.history import History
from schedulearn.core.estimate.remaining import Estimate, remaining_by_steps


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job now. Times are at its present size (at the size it wants while it waits)."""

    user: str
    name: str
    gpus: int  # of all its workers
    ran: float = 0.0  # seconds
    step: float | None = None  # the last one it reported
    steps: int | None = None  # total, if known
    step_time: float | None = None  # seconds of a step now; None: the mean so far
    flat: Estimate | None = None  # the step at which its metric flattens (see `loss`); None: not known
    features: Features = field(default_factory=dict)  # see `history.Finished`
    time_limit: float | None = None  # seconds, over all attempts


def remaining(facts: Facts, history: History | None = None) -> Estimate | None:
    """The first that answers: steps left, the loss curve, jobs like it, the time limit. `source` says which it was."""
    left = None if facts.time_limit is None else max(0.0, facts.time_limit - facts.ran)
    found = _by_steps(facts) or _by_loss_or_history(facts, history)
    if found is None:
        return None if left is None else Estimate(0.0, left, left, "its time limit")
    return found if left is None else found.at_most(left)


def _by_steps(facts: Facts) -> Estimate | None:
    if not facts.steps or facts.step is None:
        return None
    return remaining_by_steps(facts.ran, facts.step, facts.steps, facts.step_time)


def _by_loss_or_history(facts: Facts, history: History | None) -> Estimate | None:
    by_loss = _by_loss(facts)
    if by_loss is not None and by_loss.expected > 0:
        return by_loss
    # A job that goes on although its curve is flat does not end by its curve: ask its like first.
    if history is None:
        return by_loss
    return history.remaining(facts.user, facts.name, facts.gpus, facts.ran, facts.features or None) or by_loss


def _by_loss(facts: Facts) -> Estimate | None:
    flat = facts.flat
    if flat is None or not facts.step or facts.step <= 0 or facts.ran <= 0:
        return None
    step_time = facts.step_time or facts.ran / facts.step
    low, expected, high = (max(0.0, end - facts.step) * step_time for end in (flat.low, flat.expected, flat.high))
    return Estimate(low, expected, high, flat.source)
