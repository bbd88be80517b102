"""A prediction in words, in the terminal and on the page alike."""

from collections.abc import Sequence
from datetime import datetime

from schedulearn.wire.clean import clean
from schedulearn.wire.types import Finish, PredictedJob, Prediction
from schedulearn.wire.words import clock, duration

USUAL = ("fifo", "srjf", "schedulearn")  # the policies that are compared unless others are asked for
_ALIKE = 0.05  # of a duration: what differs by less is the same
_MOST_NAMED = 5  # jobs


def finish(end: Finish | None, *, is_assumed: bool = False) -> str:
    """`12 min (8 min to 20 min)`; with `?` where a duration was only assumed."""
    if end is None:
        return "not foreseeable"
    low, high, mark = duration(end["low"]), duration(end["high"]), "?" if is_assumed else ""
    is_range = end["high"] - end["low"] > _ALIKE * end["expected"] and low != high
    return f"{duration(end['expected'])}{mark}" + (f" ({low} to {high})" if is_range else "")


def finish_of(job: PredictedJob, policy: str) -> str:
    return finish(job["finishes"].get(policy), is_assumed=job["source"] is None)


def best(told: Prediction) -> str | None:
    """The policy under which the average is shortest; None: it makes no difference."""
    ends = {name: end["expected"] for name, end in told["average"].items() if end}
    name = min(ends, key=lambda one: ends[one], default=None)
    alike = name is None or all(abs(end - ends[name]) <= _ALIKE * end for end in ends.values())
    return None if alike else name


def verdict(end: Finish | None, present: Finish | None) -> int:
    """1: sooner than under the policy in force, -1: later, 0: about the same, or not known."""
    if end is None or present is None or abs(end["expected"] - present["expected"]) <= _ALIKE * present["expected"]:
        return 0
    return 1 if end["expected"] < present["expected"] else -1


def notes(told: Prediction, now: datetime) -> list[str]:
    """What the figures rest on, and what nobody knows."""
    jobs = told["jobs"]
    at = f"from {clock(told['at'], now)} on, if no other job comes"
    words = [
        f"Time until each job ends, {at}; the average is that of {_count(told['averaged'])}. {_sources(told)}".rstrip()
    ]
    if told["assumed_seconds"] is not None:
        unknown = [job["job"] for job in jobs if job["source"] is None]
        words.append(
            f"?: nothing is known of how long {_named(unknown, told['unknown'])} will run; "
            f"{duration(told['assumed_seconds'])} of running {'is' if told['unknown'] == 1 else 'each are'} assumed."
        )
    if assumed := [job["job"] for job in jobs if job["speedup_assumed"]]:
        words.append(f"What another size brings is assumed, not measured: {_named(assumed, len(assumed))}.")
    if told["total"] > len(jobs):
        words.append(f"{told['total'] - len(jobs):,} more, which end later, are not listed.")
    return words


def _sources(told: Prediction) -> str:
    """What the estimates were made from."""
    found = dict.fromkeys(clean(job["source"]) for job in told["jobs"] if job["source"])
    return f"Estimates by {', '.join(found)}." if found else ""


def _count(jobs: int) -> str:
    return f"{jobs:,} job{'' if jobs == 1 else 's'}"


def _named(jobs: Sequence[int], total: int) -> str:
    """`jobs 3, 4 and 7 more`"""
    shown = [str(job) for job in sorted(jobs)[:_MOST_NAMED]]
    more = f" and {total - len(shown)} more" if total > len(shown) else ""
    return f"job{'s' if total > 1 else ''} {', '.join(shown)}{more}"
