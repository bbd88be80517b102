"""Limits that do not follow noise to and fro."""

from schedulearn.core.policies.share.growth import Watched

_MATTERS = 0.2  # part of a limit; less is no reason to change it


def calm(watched: Watched, present: float, wanted: float) -> float:
    """The limit that it gets, in a round in which no container has come or gone.

    To go on in the same direction is free. To turn round takes as many wishes in a row as it has turned before, and
    one more: noise that goes to and fro is followed ever more slowly, so that in n rounds a limit turns at most
    √(2n) times, whatever the metric does.
    """
    way = _way(present, wanted)
    if way == 0:
        watched.wishes = 0
        return present
    if way == -watched.way:
        watched.wishes += 1
        if watched.wishes <= watched.turns:
            return present
    change(watched, way)
    return wanted


def change(watched: Watched, way: int) -> None:
    """Remember that its limit was changed."""
    watched.turns += way == -watched.way
    watched.way, watched.wishes = way, 0


def _way(present: float, wanted: float) -> int:
    if abs(wanted - present) <= _MATTERS * max(wanted, present):
        return 0
    return 1 if wanted > present else -1
