"""FlowCon made calmer: it looks at whole intervals, and follows no noise."""

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.resources import EPSILON
from schedulearn.core.policies.share.calm import calm, change
from schedulearn.core.policies.share.division import Bounds
from schedulearn.core.policies.share.flowcon import FlowCon, Round
from schedulearn.core.policies.share.growth import Interval, Watched
from schedulearn.core.policies.sharing import ShareNode


class FlowConCalm(FlowCon):
    """FlowCon's lists and limits, by means over whole intervals.

    A metric's scale goes from the lowest to the highest mean seen, so that its zero does not matter either. Two
    intervals of data come before the first change of a list, and who comes or goes moves only limits, not lists. A
    limit turns round ever more slowly. When a job grows again, the interval is the usual one at once.
    """

    _is_interrupted = False

    def _measure(self, watched: Watched, node: ShareNode, job: JobId) -> Interval | None:
        return watched.measure_means(node, job, self._itval)

    def _next_itval(self, present: float) -> float:
        return self._itval

    def _settle(self, round_: Round, bounds: Bounds, wanted: list[float]) -> list[float]:
        watched = list(round_.watched.values())
        rows = zip(watched, bounds.limits, wanted, bounds.late, strict=True)
        calmed = bounds.bound([want if late else calm(each, now, want) for each, now, want, late in rows])
        found = bounds.fit(calmed)  # all is given out, whatever was held back
        for each, before, after in zip(watched, calmed, found, strict=True):
            if abs(after - before) > EPSILON:
                change(each, 1 if after > before else -1)
        return found
