"""How long a job still takes, from the best that is known of it: its steps, its loss curve, jobs like it."""

from dataclasses import dataclass, field

from schedulearn.core.estimate.features import Features
from schedulearn.core.estimate.history import History
from schedulearn.core.estimate.remaining import Estimate, remaining_by_steps

PACE = "steps at the pace of its program"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job now. Times are at the size that it wants."""

    user: str
    name: str
    gpus: int  # of all its workers
    ran: float = 0.0  # seconds
    ran_till_step: float | None = None  # seconds, when it had just done `step`; None: now
    step: float | None = None  # the last one it reported
    steps: int | None = None  # total, if known
    step_time: float | None = None  # seconds of a step now; None: the mean so far, if it has reported
    flat: Estimate | None = None  # the step at which its metric flattens (see `loss`); None: not known
    features: Features = field(default_factory=dict)  # see `history.Finished`
    time_left: float | None = None  # seconds until its time limit

    @property
    def since_step(self) -> float:
        """Seconds that it has run since."""
        return 0.0 if self.ran_till_step is None else self.ran - self.ran_till_step


def remaining(facts: Facts, history: History | None = None) -> Estimate | None:
    """The first that answers: steps left, the loss curve, jobs like it, the time limit. `source` says which it was."""
    found = _by_steps(facts) or _by_loss_or_history(facts, history)
    return within_limit(facts, found)


def within_limit(facts: Facts, found: Estimate | None) -> Estimate | None:
    left = facts.time_left
    if found is None:
        return None if left is None else Estimate(0.0, left, left, "its time limit")
    return found if left is None else found.at_most(left)


def by_history(facts: Facts, history: History) -> Estimate | None:
    return history.remaining(facts.user, facts.name, facts.gpus, facts.ran, facts.features or None)


def _by_steps(facts: Facts) -> Estimate | None:
    if not facts.steps:
        return None
    if facts.step is None:
        return _by_pace(facts.steps, facts.step_time, facts.ran)
    found = remaining_by_steps(facts.ran - facts.since_step, facts.step, facts.steps, facts.step_time)
    return found.after(-facts.since_step).at_least(0.0) if found else None


def _by_pace(steps: int, step_time: float | None, ran: float) -> Estimate | None:
    """Before its own first report: so many steps, each as long as in jobs that run the same."""
    if step_time is None:
        return None
    whole = steps * step_time
    return Estimate(whole / 2, whole, whole * 2, PACE).after(-ran).at_least(0.0) if ran < whole else None


def _by_loss_or_history(facts: Facts, history: History | None) -> Estimate | None:
    by_loss = _by_loss(facts)
    if by_loss is not None and by_loss.expected > 0:
        return by_loss
    # A job that goes on although its curve is flat does not end by its curve: ask its like first.
    return by_loss if history is None else by_history(facts, history) or by_loss


def _by_loss(facts: Facts) -> Estimate | None:
    flat, ran = facts.flat, facts.ran - facts.since_step
    if flat is None or not facts.step or facts.step <= 0 or ran <= 0:
        return None
    step_time = facts.step_time or ran / facts.step
    low, expected, high = ((end - facts.step) * step_time for end in (flat.low, flat.expected, flat.high))
    return Estimate(low, expected, high, flat.source).after(-facts.since_step).at_least(0.0)
