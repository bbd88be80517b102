"""The job with the least work left goes first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.share.division import Bounds, demands, floors
from schedulearn.core.policies.share.turns import Claim, amounts, ranked, set_the_end
from schedulearn.core.policies.sharing import (
    SECONDS_EPSILON,
    Container,
    Left,
    ShareNode,
    Shares,
    in_cores,
)
from schedulearn.core.policies.stages import Memory

_SEEN, _ORDER, _DUE, _PAUSE = "shortest.seen", "shortest.order", "shortest.due", "shortest.pause"
_TURNS, _WISHES, _PARAMS = "shortest.turns", "shortest.wishes", "shortest.params"
_LONGEST = 8  # times `look`: as seldom as it looks while nothing changes
_DOUBT = 4.0  # an estimate whose ends are further apart than this factor does not say which is shorter
_MATTERS = 0.1  # part of a limit; less is no reason to change it
_BROKEN = 5.0  # a job that has used so many times what it said it would need in all has said nothing


@dataclass(slots=True)
class _Round:
    """One look at a machine."""

    node: ShareNode
    containers: Sequence[Container]
    seen: dict[JobId, dict[str, Any]]  # what is remembered of each
    changed: bool  # a container has come, gone or reached its target, or can be ranked at last; or parameters changed
    claims: Sequence[Claim] = ()
    order: Sequence[JobId] = ()
    notes: list[Note] = field(default_factory=list)

    @property
    def limits(self) -> list[float]:
        """In force."""
        return [min(container.most, container.limit or math.inf) for container in self.containers]


class Shortest:
    """The machine is for the job with the least work left, then for the next: what one cannot use goes to the one after
    it. That makes the average completion time short, and keeps the machine as busy as ever. A job that cannot use the
    whole machine, but would be the last to end, goes before.

    None gets less than `floor` of an equal share. A job of which it is not known what is left, that should have ended
    by now, or that has used five times what it ever said it would need in all, has its equal share: neither silence nor
    a wrong word is punished, or rewarded for long. One that has reached its target has its floor, and what all others
    leave.

    It looks `look` seconds after each change, then ever more seldom. While no job comes or goes, limits are lowered at
    most √(2n) times in n looks, whatever estimates and uses do.
    """

    def __init__(self, look: float = 5.0, floor: float = 0.1) -> None:
        self._look, self._floor = look, floor
        self._params = [look, floor]

    def share(self, node: ShareNode, memory: Memory) -> Shares:
        round_ = self._begin(node, memory)
        if not round_.containers:
            memory.clear()
            return Shares()
        due = memory.get(_DUE, -math.inf)
        if not round_.changed and node.now < due - SECONDS_EPSILON:
            return Shares(wake_at=due)
        if round_.changed:
            memory[_TURNS] = memory[_WISHES] = 0
        self._measure(round_)
        self._claim(round_)
        round_.order = ranked(round_.claims, [JobId(job) for job in memory.get(_ORDER, ())])
        limits = self._changes(round_, self._chosen(round_, memory))
        unsure = any(claim.left is None for claim in round_.claims)
        again = round_.changed or limits or unsure
        pause = self._look if again else min(2 * memory[_PAUSE], _LONGEST * self._look)
        memory[_PARAMS] = self._params
        memory[_SEEN] = {str(job): seen for job, seen in round_.seen.items()}
        memory[_ORDER], memory[_PAUSE], memory[_DUE] = list(round_.order), pause, node.now + pause
        return Shares(limits, node.now + pause, tuple(round_.notes))

    def _begin(self, node: ShareNode, memory: Memory) -> _Round:
        containers, known = node.containers(), memory.get(_SEEN, {})
        seen, changed = {}, len(known) != len(containers) or memory.get(_PARAMS, self._params) != self._params
        for container in containers:
            data = known.get(str(container.job))
            if data is None or data["arrived"] != container.arrived_at:
                data, changed = _new(container), True
            changed |= data.get("reached", False) is not container.reached
            seen[container.job] = {**data, "reached": container.reached}
        return _Round(node, containers, seen, changed)

    # --- what each could use, and has left

    def _measure(self, round_: _Round) -> None:
        """What each would use, told by a time in which none came or went and no limit changed."""
        node, uses, seconds = round_.node, [], math.inf
        for job, seen in round_.seen.items():
            counter, since = node.cpu_seconds(job), node.now - seen["looked"]
            uses.append(max(0.0, counter - seen["cpu"]) / since if since > SECONDS_EPSILON else 0.0)
            seen["looked"], seen["cpu"], seconds = node.now, counter, min(seconds, since)
        if round_.changed or seconds < self._look / 2:
            return
        before = [seen["demand"] for seen in round_.seen.values()]
        found = demands(node.cores, round_.limits, uses, before)
        for seen, demand in zip(round_.seen.values(), found, strict=True):
            seen["demand"] = demand

    def _claim(self, round_: _Round) -> None:
        containers, cores = round_.containers, round_.node.cores
        most = [container.most for container in containers]
        least = floors(cores, [c.least for c in containers], most, self._floor / len(containers))
        claims, all_reached = [], all(container.reached for container in containers)
        for container, floor in zip(containers, least, strict=True):
            seen = round_.seen[container.job]
            left = _believed(seen, round_.node.left(container.job))
            round_.changed |= left is not None and not seen["ranked"]
            seen["ranked"] |= left is not None
            want = container.most if seen["demand"] is None else min(container.most, seen["demand"])
            claims.append(Claim(container.job, left, want, floor, container.reached and not all_reached))
        round_.claims = claims

    # --- limits

    def _chosen(self, round_: _Round, memory: Memory) -> list[float]:
        """The limit of each, in cores: what is wanted, or the present ones where wishes only go to and fro."""
        bounds, present = self._bounds(round_), round_.limits
        if not round_.order and not any(bounds.late):
            return bounds.fit(bounds.most)  # it is not known which is shorter
        wanted = self._wanted(round_, bounds)
        if round_.changed or not _lowers(present, wanted):
            return wanted if round_.changed or _differ(present, wanted) else bounds.fit(present)
        memory[_WISHES] = memory.get(_WISHES, 0) + 1
        if memory[_WISHES] <= memory.get(_TURNS, 0):
            return bounds.fit(present)  # what none uses is given out all the same
        memory[_TURNS], memory[_WISHES] = memory.get(_TURNS, 0) + 1, 0
        return wanted

    def _bounds(self, round_: _Round) -> Bounds:
        most = [container.most for container in round_.containers]
        least = [claim.floor for claim in round_.claims]
        wants, late = [claim.demand for claim in round_.claims], [claim.late for claim in round_.claims]
        return Bounds(round_.node.cores, least, most, round_.limits, wants, late)

    def _wanted(self, round_: _Round, bounds: Bounds) -> list[float]:
        first = [job for job in set_the_end(round_.claims, bounds.cores) if job in round_.order]
        order = [*first, *(job for job in round_.order if job not in first)]
        given = amounts(round_.claims, order, bounds.cores)
        # A job that has all it wants is not limited: should it want more, that can be seen. Nor is the first of all:
        # what others leave of theirs is its own.
        free = {claim.job for claim in round_.claims if given[claim.job] >= claim.demand - EPSILON} | set(order[:1])
        if any(given[claim.job] < claim.demand - EPSILON for claim in round_.claims if not claim.late):
            free -= {claim.job for claim in round_.claims if claim.late}
        if not order:  # it is not known which of the others is shorter: they are equals
            free |= {claim.job for claim in round_.claims if not claim.late}
        return bounds.fit([math.inf if claim.job in free else given[claim.job] for claim in round_.claims])

    def _changes(self, round_: _Round, wanted: Sequence[float]) -> dict[JobId, float]:
        found = {}
        for container, claim, limit in zip(round_.containers, round_.claims, wanted, strict=True):
            after = limit if limit < container.most - EPSILON else math.inf
            before = container.limit if container.limit is not None else math.inf
            if after != before and not abs(after - before) <= EPSILON:
                found[container.job] = after
                round_.notes.append(self._note(round_, claim, before, after))
        return found

    def _note(self, round_: _Round, claim: Claim, before: float, after: float) -> Note:
        place = round_.order.index(claim.job) + 1 if claim.job in round_.order else None
        rank = f"number {place} by what is left" if place else "what is left of it is not known"
        rank = "target reached" if claim.late else rank
        words = f"limit {in_cores(before)} → {in_cores(after)} ({rank}, {len(round_.containers)} on the machine)"
        data: Mapping[str, object] = {
            "before": before if math.isfinite(before) else None,
            "after": after if math.isfinite(after) else None,
            "left": {str(other.job): other.left for other in round_.claims},
            "demands": {str(other.job): other.demand for other in round_.claims},
            "order": list(round_.order),
            "floor": claim.floor,
            "reached": claim.late,
            "machine": round_.node.cores,
        }
        return Note("share_limit", words, claim.job, round_.node.name, data)


def told(left: Left | None) -> float | None:
    """What an estimate is worth: nothing if its range is too wide, or if the job should have ended by now."""
    if left is None or not 0 < left.expected < math.inf or left.high > _DOUBT * left.low:
        return None
    return left.expected


def _believed(seen: dict[str, Any], left: Left | None) -> float | None:
    """What it has left, as long as it keeps to what it has said before. `seen` remembers the least that it ever said
    it would need in all."""
    expected = told(left)
    if left is not None and expected is not None:
        in_all = seen["cpu"] + left.high
        seen["said"] = in_all if seen.get("said") is None else min(seen["said"], in_all)
    broken = seen.get("said") is not None and seen["cpu"] > _BROKEN * seen["said"]
    return None if broken else expected


def _new(container: Container) -> dict[str, Any]:
    at = container.arrived_at
    return {"arrived": at, "looked": at, "cpu": 0.0, "demand": None, "ranked": False}


def _lowers(present: Sequence[float], wanted: Sequence[float]) -> bool:
    return any(after < (1 - _MATTERS) * before for before, after in zip(present, wanted, strict=True))


def _differ(present: Sequence[float], wanted: Sequence[float]) -> bool:
    return any(abs(b - a) > _MATTERS * max(a, b) for a, b in zip(present, wanted, strict=True))
