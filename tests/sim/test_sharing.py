"""Jobs that share a machine."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.core.domain.resources import Resources
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.sharing import ShareNode, Shares
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.sim.cluster import nodes_from_list
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.run import Request, prepare
from schedulearn.lab.traces.types import TraceJob, Workload

VAE, MNIST_P, MNIST_T = 259.6, 106.1, 28.2  # machine-seconds of FlowCon's three jobs, calibrated without limits
FIXED_3 = [(0.0, VAE), (40.0, MNIST_P), (80.0, MNIST_T)]
LOSS = LearningCurve([(k / 100, math.exp(-8 * k / 100)) for k in range(1, 101)])


class Capped:
    """A share stage with the limits it was told."""

    def __init__(self, caps: Mapping[int, float], wake_at: float | None = None) -> None:
        self.caps, self.wake_at = caps, wake_at
        self.asked: list[tuple[float, list[int]]] = []

    def share(self, node: ShareNode, memory: Any) -> Shares:
        here = [container.job for container in node.containers()]
        self.asked.append((node.now, [int(job) for job in here]))
        wake = self.wake_at if self.wake_at is not None and self.wake_at > node.now else None
        return Shares({job: self.caps[job] for job in here if job in self.caps}, wake)


def jobs(rows: list[tuple[float, float]], cpus: float = 2.0, **more: Any) -> Workload:
    """(arrival, seconds alone)."""
    return Workload("t", [TraceJob(str(i), at, work, 0, cpus=cpus, **more) for i, (at, work) in enumerate(rows)])


def run(workload: Workload, policy: Policy | None = None, *nodes: dict[str, Any], **options: Any) -> Result:
    machines = nodes_from_list([*nodes] or [{"cpus": 2}])
    return Simulation(workload, machines, policy or build_policy(), SimOptions(timeline=True, **options)).run()


def with_caps(caps: Mapping[int, float], wake_at: float | None = None) -> Policy:
    return replace(build_policy(), share=Capped(caps, wake_at))


def ends(result: Result) -> list[float]:
    return [job.ended for job in sorted(result.jobs, key=lambda job: job.serial)]


class Looks:
    """Limits nobody, and notes what is guaranteed to each and what it may use."""

    def __init__(self) -> None:
        self.saw: list[tuple[float, float]] = []

    def share(self, node: ShareNode, memory: Any) -> Shares:
        self.saw += [(container.least, container.most) for container in node.containers()]
        return Shares()


@pytest.mark.parametrize(("preset", "least"), [("fifo", 0.001), ("cores-attend", 2.0)])
def test_whole_cores_that_a_job_was_given_are_its_own(preset: str, least: float) -> None:
    looks = Looks()
    run(jobs([(0, 10)]), replace(build_policy(preset), share=looks))
    assert looks.saw[0] == (least, 2.0)


# --- without limits


def test_two_jobs_together_take_twice_as_long_while_both_run() -> None:
    assert ends(run(jobs([(0, 10), (0, 10)]))) == pytest.approx([20, 20])
    assert ends(run(jobs([(0, 10), (5, 10)]))) == pytest.approx([15, 20])


def test_the_published_three_jobs_without_limits_by_hand() -> None:
    """VAE alone for 40 s, two for 40 s, three until MNIST-T has its 28.2: then two until MNIST-P has its 106.1."""
    result = run(jobs(FIXED_3))
    third = 80 + 3 * MNIST_T
    second = third + 2 * (MNIST_P - 20 - MNIST_T)
    assert ends(result) == pytest.approx([VAE + MNIST_P + MNIST_T, second, third])
    assert ends(result)[0] == pytest.approx(394.0, abs=0.2)
    assert third - 80 == pytest.approx(84.7, abs=0.2)
    assert second - 40 == pytest.approx(240.5, abs=0.2)
    assert result.summary()["utilization"] == pytest.approx(1.0)


def test_who_wants_little_gets_it_and_the_rest_is_for_the_others() -> None:
    mixed = Workload("t", [TraceJob("lstm", 0, 10, 0, cpus=0.4), TraceJob("vae", 0, 10, 0, cpus=2.0)])
    assert ends(run(mixed)) == pytest.approx([10, (20 - 1.6 * 10) / 2.0 + 10])


def test_jobs_on_different_machines_do_not_meet() -> None:
    spread = build_policy("fifo", {"place": "k8s-default"})
    assert ends(run(jobs([(0, 10), (0, 10), (0, 10)]), spread, {"count": 3, "cpus": 2})) == pytest.approx([10] * 3)


def test_what_a_machine_keeps_for_itself_is_not_shared() -> None:
    node = replace(nodes_from_list([{"cpus": 2}])[0], reserved=Resources(cpus=0.4))
    result = Simulation(jobs([(0, 10)]), [node], build_policy(), SimOptions()).run()
    assert ends(result) == pytest.approx([10 / 0.8])


def test_where_cores_do_not_matter_nothing_is_shared() -> None:
    with_gpus = Workload("t", [TraceJob(str(i), 0, 10, 1) for i in range(2)])
    share = Capped({})
    result = run(with_gpus, replace(build_policy(), share=share), {"gpus": 2, "cpus": 1})
    assert (ends(result), share.asked, list(result.shares)) == ([10, 10], [], [])


def test_a_suspended_job_leaves_its_cores_to_the_others() -> None:
    policy = build_policy("gandiva", params={"quantum": 5})
    gpus = Workload("t", [TraceJob(str(i), 0, 10, 1, cpus=2.0) for i in range(2)])
    assert ends(run(gpus, policy, {"gpus": 1, "cpus": 2})) == pytest.approx([15, 20])


def test_a_machine_that_fails_takes_its_containers_along() -> None:
    rows = [(float(i), 30.0) for i in range(6)]
    policy = build_policy("flowcon", params={"itval": 5})
    result = run(jobs(rows, learning=LOSS), policy, {"count": 2, "cpus": 2}, node_mtbf=30.0, node_repair=5.0, seed=2)
    assert len(result.jobs) == 6
    assert result.node_failures > 0


# --- with limits


def test_a_limit_slows_one_and_speeds_up_the_other() -> None:
    slow, fast = ends(run(jobs([(0, 10), (0, 10)]), with_caps({1: 0.5})))
    assert fast == pytest.approx(10 / 0.75)
    assert slow == pytest.approx(40), "a quarter of the machine all the time"


def test_the_stage_is_asked_at_once_when_somebody_comes_or_goes_and_when_it_wanted() -> None:
    policy = with_caps({}, wake_at=7.0)
    run(jobs([(0, 10), (5, 10)]), policy)
    assert policy.share.asked == [(0, [1]), (5, [1, 2]), (7.0, [1, 2]), (15.0, [2]), (20.0, [])]  # type: ignore[union-attr]


def test_a_limit_goes_with_the_container() -> None:
    """A job that is started again is a new one to the stage."""
    result = run(jobs([(0, 10)]), with_caps({1: 1.0}))
    assert ends(result) == pytest.approx([20])
    assert [(s.at, s.cores, s.limit) for s in result.shares] == [(0, 1.0, 1.0), (20, 0.0, math.inf)]


@pytest.mark.parametrize("caps", [{1: 0.0}, {1: math.nan}, {1: -1.0}, {1: 1e-6}])
def test_a_limit_below_what_was_guaranteed_is_refused(caps: dict[int, float]) -> None:
    with pytest.raises(BadPlan, match="leaves job 1 with"):
        run(jobs([(0, 10)]), with_caps(caps))


def test_what_was_used_is_counted_under_changing_limits() -> None:
    seen: list[float] = []

    class Counting(Capped):
        def share(self, node: ShareNode, memory: Any) -> Shares:
            seen.extend(node.cpu_seconds(container.job) for container in node.containers()[:1])
            return super().share(node, memory)

    run(jobs([(0, 10), (5, 10)]), replace(build_policy(), share=Counting({}, wake_at=9.0)))
    assert seen == pytest.approx([0.0, 10.0, 14.0, 10.0]), "alone, then half; the second after the first has ended"


def test_a_container_reports_what_its_curve_says_and_else_is_silent() -> None:
    seen: list[tuple[float, float | None]] = []

    class Reading(Capped):
        def share(self, node: ShareNode, memory: Any) -> Shares:
            if node.containers():
                job = node.containers()[0].job
                seen.append((node.now, node.evaluation(job, memory.get("at", -math.inf))))
                memory["at"] = node.now
            return super().share(node, memory)

    curve = LearningCurve([(0.1, 1.0), (0.2, 3.0), (0.8, 5.0), (1.0, 6.0)], "max")
    work = Workload("t", [TraceJob("a", 0, 10, 0, cpus=2.0, learning=curve), *jobs([(2.5, 1), (5, 1)]).jobs])
    run(work, replace(build_policy(), share=Reading({})))
    assert seen[:4] == [(0, None), (2.5, 2.0), (4.5, None), (5, None)], "nothing new between 0.2 and 0.8 of its work"


# --- the whole


def test_flowcon_speeds_the_newcomer_up_and_leaves_the_makespan_as_it_is() -> None:
    """What MNIST-T gains depends on the curves; that it gains, and the sum, does not."""
    fair = run(jobs(FIXED_3, learning=LOSS))
    flowcon = run(jobs(FIXED_3, learning=LOSS), build_policy("flowcon"))
    assert ends(flowcon)[0] == pytest.approx(ends(fair)[0]), "nothing is left unused"
    assert ends(flowcon)[2] < ends(fair)[2] - 20
    assert ends(flowcon)[1] <= ends(fair)[1]
    assert {written.note.kind for written in flowcon.notes} == {"share_list", "share_limit", "share_interval"}
    assert flowcon.growth, "growth efficiency at each round"
    assert flowcon.limit_changes == sum(written.note.kind == "share_limit" for written in flowcon.notes)


def test_what_a_migrate_stage_writes_down_is_kept_with_its_time() -> None:
    work = Workload("t", [TraceJob(str(i), 0, 600, 0, cpus=2.0, learning=LOSS) for i in range(6)])
    result = run(work, build_policy("specon", params={"specon_alpha": 0.1}), {"cpus": 2, "count": 2})
    assert {written.note.kind for written in result.notes} == {"category"}
    assert all(written.at % 30 == 0 for written in result.notes if written.note.kind == "category")
    assert {sample.serial for sample in result.metric_changes} == set(range(1, 7))


def test_the_same_run_twice_is_the_same() -> None:
    one, again = (run(jobs(FIXED_3, learning=LOSS), build_policy("flowcon")) for _ in range(2))
    assert (one.jobs, one.notes, one.shares) == (again.jobs, again.notes, again.shares)


@pytest.mark.parametrize("policy", ["flowcon", "cores-strict", "cores-attend", "cores-proportional", "gandiva"])
def test_every_job_ends_and_no_core_is_used_twice(policy: str) -> None:
    study = prepare(
        Request(
            cluster="2x4c",
            policies=[policy],
            trace="synthetic:philly?jobs=40&cpus=2&curves=true&load=2",
            timeline=True,
            stages={"share": "flowcon"},
            params={"itval": "10m"} if policy != "gandiva" else {"itval": "10m", "quantum": 600},
        )
    )
    result = study.run(study.choices[0])
    assert len(result.jobs) == 40
    assert result.summary()["stages"]["share"] == "flowcon"
    in_use: dict[tuple[str, int], float] = {}
    for at in sorted({sample.at for sample in result.shares}):
        in_use |= {(s.node, s.serial): s.cores for s in result.shares if s.at == at}
        for node in {s.node for s in result.shares}:
            assert sum(cores for (where, _), cores in in_use.items() if where == node) <= 4 + 1e-6
    assert 0 < result.summary()["utilization"] <= 1
