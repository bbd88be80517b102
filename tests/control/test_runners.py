"""Running jobs from the back of the order."""

from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.control.running_jobs import RunningJobs
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.policies.order.srsf import Srsf
from schedulearn.core.policies.order.srtf_min import SrtfMin
from support.builders import job


class Falling:
    """What remains falls while a job runs, and may rise when it is started again."""

    def __init__(self, *, steady: bool) -> None:
        self.steady = steady
        self.left: dict[int, float] = {}

    def remaining(self, job: Job, now: float) -> float:
        return self.left[job.id]

    def duration(self, job: Job) -> float:
        return self.left[job.id]

    def speedup(self, job: Job) -> SpeedUp:
        return SpeedUp([1])

    def restart_cost(self, job: Job) -> float:
        return 0.0


def test_the_longest_comes_first_and_ties_go_by_number() -> None:
    facts = Falling(steady=True)
    facts.left = {1: 5.0, 2: 9.0, 3: 5.0}
    runners, order = RunningJobs(job(n, gpus=1) for n in (1, 2, 3)), SrtfMin()
    assert [j.id for _, j in runners.last_first(order, facts, 0.0)] == [2, 3, 1]
    facts.left[2] = 1.0
    assert [j.id for _, j in runners.last_first(order, facts, 1.0)] == [3, 1, 2]
    runners.pop(JobId(3))
    assert next(iter(runners.last_first(order, facts, 1.0)))[1].id == 1


def test_one_that_moves_back_must_be_renewed() -> None:
    facts, order = Falling(steady=True), SrtfMin()
    facts.left = {1: 5.0, 2: 9.0}
    runners = RunningJobs(job(n, gpus=1) for n in (1, 2))
    assert [j.id for _, j in runners.last_first(order, facts, 0.0)] == [2, 1]
    runners[JobId(1)].priority = 10
    runners.renew(runners[JobId(1)])
    assert [j.id for _, j in runners.last_first(order, facts, 0.0)] == [1, 2]


def test_another_order_makes_all_keys_anew() -> None:
    facts = Falling(steady=True)
    facts.left = {1: 5.0, 2: 4.0}
    runners = RunningJobs([job(1, gpus=1), job(2, gpus=2)])
    assert [j.id for _, j in runners.last_first(SrtfMin(), facts, 0.0)] == [1, 2]
    assert [j.id for _, j in runners.last_first(Srsf(), facts, 0.0)] == [2, 1]


moves = st.lists(
    st.tuples(st.sampled_from(["starts", "ends", "falls", "restarts", "looks"]), st.integers(1, 6), st.integers(0, 20)),
    max_size=60,
)


@given(moves)
def test_kept_keys_and_new_ones_give_the_same(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens in between, and however far somebody looks."""
    kept, anew = Falling(steady=True), Falling(steady=False)
    kept.left = anew.left = dict.fromkeys(range(1, 7), 20.0)
    order, running = SrtfMin(), RunningJobs()
    for what, n, amount in steps:
        number = JobId(n)
        if what == "starts":
            running[number] = job(n, gpus=1)
        elif what == "ends":
            running.pop(number, None)
        elif what == "restarts" and number in running:
            kept.left[n] = float(amount)
            running[number] = running[number]
        elif what == "falls" and number in running:
            kept.left[n] = max(0.0, kept.left[n] - amount)
        else:
            count = amount % 4
            some = [pair for pair, _ in zip(running.last_first(order, kept, 0.0), range(count), strict=False)]
            assert some == [pair for pair, _ in zip(running.last_first(order, anew, 0.0), range(count), strict=False)]
