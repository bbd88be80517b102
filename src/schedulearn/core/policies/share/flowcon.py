"""FlowCon: CPU follows growth, by the rule as it was published (Algorithms 1 and 2)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.share.division import Bounds, demands, floors
from schedulearn.core.policies.share.growth import Interval, List, Watched
from schedulearn.core.policies.sharing import SECONDS_EPSILON, Container, ShareNode, Shares, in_cores
from schedulearn.core.policies.stages import Memory

FULL, PROPORTIONAL = "full", "proportional"
ONE_AND_AN_NTH = "1+1/n"  # beta, as the code that was released has it
_WATCHED, _ITVAL, _DUE = "flowcon.containers", "flowcon.itval", "flowcon.due"
_PARAMS = "flowcon.params"


@dataclass(slots=True)
class Round:
    """One look at a machine."""

    node: ShareNode
    containers: Sequence[Container]
    watched: dict[JobId, Watched]
    itval: float
    notes: list[Note] = field(default_factory=list)
    growth: dict[JobId, float] = field(default_factory=dict)

    @property
    def all_complete(self) -> bool:
        """All but those that only get what is left."""
        lists = [watched.list for watched, late in zip(self.watched.values(), self.late, strict=True) if not late]
        return all(each is List.COMPLETING for each in lists)

    @property
    def late(self) -> list[bool]:
        """Which have reached their target; none, if all have: then they are equals again."""
        reached = [container.reached for container in self.containers]
        return [each and not all(reached) for each in reached]

    def note(self, kind: str, words: str, job: JobId | None, data: Mapping[str, object]) -> None:
        self.notes.append(Note(kind, words, job, self.node.name, data))


class FlowCon:
    """At each run a container whose growth efficiency is below `alpha` goes from the new (NL) to the watched (WL), and
    from these to the completing ones (CL), and one above it back to the new. Those that complete may use their part of
    all growth, but at least 1 / (`beta` × containers) of the machine; a new one is not limited, and a watched one keeps
    its limit.

    Growth efficiency is what the metric moved in a second since the last run, as a part of the largest value that the
    job has shown, over the part of the machine that it used for that. It is run every `itval` seconds, and whenever a
    container arrives or leaves: that ends the interval, and lists move then, too. When all complete, none is limited,
    and the interval doubles up to `itval_cap`.

    Silence is not convergence: without a new value a container stays in its list. A container that has reached its
    target has its floor, and what all others leave.
    """

    def __init__(
        self,
        alpha: float = 0.05,
        itval: float = 20.0,
        beta: float | str = 2.0,
        growing: str = FULL,
        itval_cap: float = 320.0,
    ) -> None:
        """`beta`: a number, or "1+1/n" of n containers. `growing`: a container that grows may use all (full), or its
        part of all growth (proportional)."""
        self._alpha, self._itval, self._beta, self._growing = alpha, itval, beta, growing
        self._itval_cap = max(itval, itval_cap)
        self._params = [alpha, itval, beta, growing, itval_cap]

    def share(self, node: ShareNode, memory: Memory) -> Shares:
        round_, changed = self._begin(node, memory)
        if not round_.containers:
            memory.clear()
            return Shares()
        due = memory.get(_DUE, math.inf)
        if changed:
            round_.itval = self._itval
        due = min(due, node.now + round_.itval)
        is_over = node.now >= due - SECONDS_EPSILON
        if is_run := is_over or (changed and self._is_interrupted):
            self._look(round_)
            due = node.now + round_.itval
        if changed or is_over:
            self._watch_use(round_, is_over=is_run)
        limits = self._limits(round_, settled=not changed) if changed or is_over else {}
        memory[_WATCHED] = {str(job): watched.to_dict() for job, watched in round_.watched.items()}
        memory[_ITVAL], memory[_DUE], memory[_PARAMS] = round_.itval, due, self._params
        return Shares(limits, due, tuple(round_.notes), round_.growth)

    # --- what another edition of it may do otherwise

    _is_interrupted = True  # the interval under way, by whoever comes or goes

    def _measure(self, watched: Watched, node: ShareNode, job: JobId) -> Interval | None:
        return watched.measure_points(node, job)

    def _next_itval(self, present: float) -> float:
        """While not all complete. Only who comes or goes ends the doubling."""
        return present

    def _settle(self, round_: Round, bounds: Bounds, wanted: list[float]) -> list[float]:
        """The limits of a round in which none has come or gone."""
        return wanted

    # --- what is there

    def _begin(self, node: ShareNode, memory: Memory) -> tuple[Round, bool]:
        """What is there, as it is remembered; and whether a container has come, gone or reached its target since, or a
        parameter has changed."""
        containers = node.containers()
        known: dict[str, dict[str, Any]] = memory.get(_WATCHED, {})
        watched, changed = {}, len(known) != len(containers) or memory.get(_PARAMS, self._params) != self._params
        for container in containers:
            data = known.get(str(container.job))
            is_known = data is not None and data["arrived"] == container.arrived_at
            found = Watched.of(data) if data and is_known else Watched.new(container)
            changed |= not is_known or found.reached != container.reached
            if found.reached and not container.reached:  # it has another target now, and all to learn again
                found.list = List.NEW
            found.reached = container.reached
            watched[container.job] = found
        itval = min(max(memory.get(_ITVAL, self._itval), self._itval), self._itval_cap)
        return Round(node, containers, watched, itval), changed

    # --- lists

    def _look(self, round_: Round) -> None:
        """The end of an interval: measure all, and move them between the lists."""
        for job, watched in round_.watched.items():
            interval = self._measure(watched, round_.node, job)
            if interval is not None:
                round_.growth[job] = interval.growth
                was = watched.move(self._alpha)
                if was is not watched.list:
                    self._note_list(round_, job, was, watched.list, interval)
        before, longest = round_.itval, self._itval_cap
        round_.itval = min(2 * before, longest) if round_.all_complete else self._next_itval(before)
        if round_.itval != before:
            why = "all complete" if round_.all_complete else "a job grows again"
            words = f"{why}: the next interval is {round_.itval:g} s"
            round_.note("share_interval", words, None, {"before": before, "after": round_.itval})

    def _note_list(self, round_: Round, job: JobId, was: List, now: List, seen: Interval) -> None:
        side = "below" if seen.growth < self._alpha else "at least"
        words = f"{was} → {now}: growth efficiency {seen.growth:.4g} is {side} {self._alpha:g}"
        data = {"from": str(was), "to": str(now), "alpha": self._alpha, "machine": round_.node.cores, **seen.data}
        round_.note("share_list", words, job, data)

    # --- limits

    def _watch_use(self, round_: Round, *, is_over: bool) -> None:
        """What each would use: told by an interval in which none came or went, or by the better half of one."""
        watched, seen = round_.watched.values(), []
        for job, each in round_.watched.items():
            seen.append(each.look(round_.node, job))
        if is_over and all(seconds >= self._itval / 2 for seconds, _ in seen):
            before = [each.demand for each in watched]
            uses = [cores for _, cores in seen]
            for each, demand in zip(watched, demands(round_.node.cores, _in_force(round_), uses, before), strict=True):
                each.demand = demand

    def _limits(self, round_: Round, *, settled: bool) -> dict[JobId, float]:
        """The limits that change. `settled`: none has come or gone, so that noise need not be followed."""
        bounds = self._bounds(round_)
        wanted = bounds.fit(self._parts(round_, bounds.limits))
        if settled:
            wanted = self._settle(round_, bounds, wanted)
        found = {}
        for container, most, limit in zip(round_.containers, bounds.most, wanted, strict=True):
            after = limit if limit < most - EPSILON else math.inf
            if _differ(container.limit, after):
                found[container.job] = after
                self._note_limit(round_, container, after)
        return found

    def _bounds(self, round_: Round) -> Bounds:
        cores, containers = round_.node.cores, round_.containers
        most = [container.most for container in containers]
        least = floors(
            cores, [c.least for c in containers], most, 1 / (self._beta_of(len(containers)) * len(containers))
        )
        known = [each.demand for each in round_.watched.values()]
        wants = [high if want is None else min(high, want) for high, want in zip(most, known, strict=True)]
        return Bounds(cores, least, most, _in_force(round_), wants, round_.late)

    def _beta_of(self, containers: int) -> float:
        return 1 + 1 / containers if self._beta == ONE_AND_AN_NTH else float(self._beta)

    def _parts(self, round_: Round, present: Sequence[float]) -> list[float]:
        """What each list gives, in cores, before floors and what is left over."""
        cores, late = round_.node.cores, round_.late
        if round_.all_complete:
            return [0.0 if each else cores for each in late]
        growths = [w.growth for w, is_late in zip(round_.watched.values(), late, strict=True) if not is_late]
        total = sum(growth for growth in growths if growth is not None)
        # One of which nothing is known yet may grow most of all: those that complete make way for it.
        unknown = any(growth is None for growth in growths)
        parts = []
        for watched, limit, is_late in zip(round_.watched.values(), present, late, strict=True):
            own = cores * watched.growth / total if watched.growth and total > 0 else 0.0
            if is_late:
                parts.append(0.0)
            elif watched.list is List.COMPLETING:
                parts.append(0.0 if unknown else own)
            elif watched.list is List.WATCHING and not watched.reached:
                parts.append(limit)
            else:
                parts.append(cores if watched.growth is None or self._growing == FULL else own)
        return parts

    def _note_limit(self, round_: Round, container: Container, after: float) -> None:
        watched = round_.watched[container.job]
        cores, before = round_.node.cores, container.limit
        data: dict[str, object] = {
            "before": before,
            "after": after if math.isfinite(after) else None,
            "list": str(watched.list),
            "reached": container.reached,
            "growth": watched.growth,
            "growths": {str(job): other.growth for job, other in round_.watched.items()},
            "machine": cores,
            "containers": len(round_.containers),
            "beta": self._beta_of(len(round_.containers)),
        }
        kind = "target reached" if container.reached else str(watched.list)
        words = f"limit {in_cores(before)} → {in_cores(after)} ({kind}, {len(round_.containers)} on the machine)"
        round_.note("share_limit", words, container.job, data)


def _in_force(round_: Round) -> list[float]:
    return [min(container.most, container.limit or math.inf) for container in round_.containers]


def _differ(before: float | None, after: float) -> bool:
    if before is None or math.isinf(after):
        return (before is None) != math.isinf(after)
    return abs(before - after) > EPSILON
