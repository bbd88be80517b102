"""Jobs that leave their batch size to the scheduler, simulated."""

from typing import Any

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.facts import OracleFacts
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import Request, prepare
from schedulearn.lab.traces.adaptive import Adaptive
from schedulearn.lab.traces.profiles import Epoch, Profile, Step
from schedulearn.lab.traces.types import TraceJob, Workload

EPOCHS = 5


def profile(noise: float, exchange: float = 0.1) -> Profile:
    """A step takes 0.2 s, 10 ms for each sample of a worker, and something to exchange gradients. Its noise grows."""
    steps = [
        Step(n, local, 0.2 + 0.01 * local + exchange * (n > 1), exchange * (n > 1))
        for n in (1, 2, 4, 8)
        for local in (4, 16, 64, 256)
    ]
    epochs = {
        batch: [Epoch(k, -k, 1000.0 * k, 1.0, noise * 4**k / 32) for k in range(1, EPOCHS + 1)] for batch in (32, 256)
    }
    return Profile("net", steps, epochs)


def job(label: str, arrival: float, want: int = 2, **hidden: float) -> TraceJob:
    true = Adaptive(profile(hidden.pop("noise", 20.0), **hidden), want)
    learning = LearningCurve([(end, 1.0 - end) for end in true.ends])
    return TraceJob(
        label, arrival, true.duration, want, name=label, workers=(1, 8), learning=learning, announced=1.0,
        batch=64, adaptive=true,
    )  # fmt: skip


def run(jobs: list[TraceJob], preset: str, *, oracle: bool = False, cluster: str = "2x4", **options: Any) -> Result:
    facts = OracleFacts(steady=False) if oracle else LearnedFacts()
    policy = build_policy(preset)
    return Simulation(Workload("t", jobs), parse_cluster(cluster), policy, SimOptions(**options), facts).run()


def times(result: Result) -> list[float]:
    return [one.jct for one in result.jobs]


def test_alone_at_the_size_it_wants_it_takes_its_duration() -> None:
    (took,) = times(run([job("a", 0.0)], "fifo", oracle=True))
    assert took == pytest.approx(job("a", 0.0).duration)


def test_what_is_learned_comes_close_to_the_truth_and_a_job_like_it_profits() -> None:
    first, second = job("a", 0.0), job("a", 1e5)
    one, two = times(run([first, second], "fifo"))
    assert first.duration < two <= one
    assert one < 1.2 * first.duration, "some time with other batches is needed to learn what they do"


def test_the_phase_of_the_training_decides_how_many_workers_are_worth_it() -> None:
    true = job("a", 0.0).adaptive
    assert true is not None
    assert true.speedup(EPOCHS - 1)(8) > 1.5 * true.speedup(0)(8)
    assert true.best(EPOCHS - 1, (8,)) > true.best(0, (8,))


def test_a_stop_without_a_checkpoint_goes_back_to_an_earlier_phase() -> None:
    long, at = job("a", 0.0, want=8), 0.5 * job("a", 0.0, want=8).duration
    short = TraceJob("b", at, 10.0, 8)
    result = run([long, short], "srtf", oracle=True, checkpoint_every=1e6)
    assert [one.preemptions for one in result.jobs if one.serial == 1] == [1]
    assert max(times(result)) == pytest.approx(at + 10.0 + long.duration)


@pytest.mark.parametrize("preset", ["afs-l", "ffdl", "elastic-tiresias"])
@pytest.mark.parametrize("hidden", [{"noise": 2000.0}, {"exchange": 3.0}])
def test_the_truth_changes_nothing_before_it_was_measured(preset: str, hidden: dict[str, float]) -> None:
    def started(jobs: list[TraceJob]) -> list[tuple[float, int, int]]:
        result = run(jobs, preset, cluster="1x4", timeline=True)
        return sorted((one.start, one.serial, one.workers) for one in result.segments)

    jobs = [job("a", 0.0), job("b", 50.0), job("c", 100.0), job("d", 110.0)]
    other = [*jobs[:2], job("c", 100.0, **hidden), jobs[3]]
    one, two = started(jobs), started(other)
    begun = min(at for segments in (one, two) for at, number, _ in segments if number == 3)
    assert [step for step in one if step[0] < begun + 20] == [step for step in two if step[0] < begun + 20]
    assert one != two


def test_only_a_workload_that_knows_what_batches_do_can_be_asked() -> None:
    request = Request("2x4", ["fifo"], trace="synthetic:philly?jobs=5", goodput=True)
    with pytest.raises(InvalidSpec, match=r"goodput.*pollux"):
        prepare(request)
