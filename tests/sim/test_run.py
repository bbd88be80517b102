"""From a request to a study to results: what is chosen, what is refused, what is estimated, what runs side by side."""

import json
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.job import Accrual
from schedulearn.core.policies.catalogue import plugins
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.model import JobModel, SpecMaker, make_job
from schedulearn.lab.sim.parallel import run_all
from schedulearn.lab.sim.replay import workload_of
from schedulearn.lab.sim.run import BadRequest, PolicyFailed, Request, Study, choose, prepare
from schedulearn.lab.traces.types import TraceJob
from support.traces import TRACES, needs_traces

HEADER = "submission_time,num_gpu,duration,deadline\n"
OWN = '''
import os

from schedulearn.core.policies.stages import Order

class Last(Order):
    """The last one first."""

    def __init__(self, sign: int = -1) -> None:
        self.sign = sign

    def key(self, job, now, facts):
        return (self.sign * job.id,)

class Broken(Order):
    def key(self, job, now, facts):
        return (1 / 0,)

class Deadly(Order):
    def key(self, job, now, facts):
        os._exit(7)

class Nothing:
    pass
'''


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., str]:
    """A file with a row (arrival, GPUs, duration) for each job."""

    def write(*rows: tuple[float, int, float] | str) -> str:
        path = tmp_path / "trace.csv"
        lines = [row if isinstance(row, str) else ",".join(str(n) for n in (*row, 10_000)) for row in rows]
        path.write_text(HEADER + "\n".join(lines) + "\n")
        return str(path)

    return write


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


def study(trace: str, *policies: str, cluster: str = "1x2", **more: Any) -> Study:
    return prepare(Request(cluster=cluster, policies=policies or ("fifo",), trace=trace, **more))


def ends(result: Result) -> dict[int, float]:
    return {job.serial: job.ended for job in result.jobs}


def run(study: Study) -> Result:
    (choice,) = study.choices
    return study.run(choice)


# --- policies


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        # Two GPUs; job 1 holds one of them until 10, job 2 wants both, job 3 wants one.
        ({}, {1: 10.0, 2: 20.0, 3: 8.0}),  # backfilling: job 3 goes past job 2
        ({"allocate": "strict"}, {1: 10.0, 2: 20.0, 3: 25.0}),  # job 2 blocks the line
        ({"share": "fair", "migrate": "none"}, {1: 10.0, 2: 20.0, 3: 8.0}),  # what there is
    ],
)
def test_stages_override_those_of_a_preset(
    trace: Callable[..., str], stages: dict[str, str], expected: dict[int, float]
) -> None:
    path = trace((0, 1, 10), (1, 2, 10), (3, 1, 5))
    assert ends(run(study(path, stages=stages))) == expected


def test_a_parameter_of_another_stage_is_passed_over() -> None:
    """`--allocate strict --param starvation_guard=off` is no contradiction."""
    strict, rigid = choose(["fifo", "srtf"], {}, {"starvation_guard": "off"})
    assert (strict.params, rigid.params) == ({"starvation_guard": "off"},) * 2
    (choice,) = choose(["fifo"], {"allocate": "strict"}, {"starvation_guard": "off"})
    assert choice.params == {}
    assert choice.ignored == ("starvation_guard",)


def test_all_are_all_presets_and_no_policy_runs_twice() -> None:
    labels = [choice.label for choice in choose(["fifo", "all", "fifo"], {}, {})]
    assert len(labels) == len(set(labels)) > 10
    assert labels[0] == "fifo"


def test_a_stage_that_searches_at_random_takes_the_seed() -> None:
    assert choose(["fifo"], {"migrate": "consolidate"}, {}, seed=7)[0].params == {"seed": 7}
    assert choose(["fifo"], {"migrate": "consolidate"}, {"seed": 3}, seed=7)[0].params == {"seed": 3}
    assert choose(["k8s-default"], {}, {}, seed=7)[0].params == {"seed": 7}, "lots, too"
    assert choose(["fifo"], {}, {}, seed=7)[0].params == {}


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        ({"policies": ["frtf"]}, "preset", "did you mean 'srtf'"),
        ({"policies": []}, "policies", "no policy"),
        ({"stages": {"place": "packk"}}, "stages.place", "did you mean 'pack'"),
        ({"stages": {"share": "flowco"}}, "stages.share", "did you mean 'flowcon'"),
        ({"stages": {"migrate": "nomad"}}, "stages.migrate", "unknown stage 'nomad'"),
        ({"params": {"starvation_gard": 1}}, "params.starvation_gard", "did you mean 'starvation_guard'"),
        ({"params": {"starvation_guard": "soon"}}, "params.starvation_guard", "not a duration"),
        ({"cluster": "0x4"}, "cluster", "not a cluster"),
        ({"cluster": "4"}, "cluster", "not a cluster"),
        ({"cluster": "none.yaml"}, "cluster", "cannot read"),
        ({"restart_cost": "-1"}, "restart_cost", "not a duration"),
        ({"locality_penalty": 1.0}, "locality_penalty", "not allowed"),
        ({"gpu_use": 0.0}, "gpu_use", "not allowed"),
        ({"bandwidth": 0.0}, "bandwidth", "no bandwidth"),
        ({"bandwidth": 10.0, "locality_penalty": 0.1}, "locality_penalty", "count twice"),
        ({"trace": "none.csv"}, "trace", "cannot read"),
        ({"jobs": 0}, "jobs", "at least 1"),
        ({"history": []}, "history", "not run any job"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    trace: Callable[..., str], request_: dict[str, Any], field: str, words: str
) -> None:
    whole: dict[str, Any] = {"cluster": "1x2", "policies": ["fifo"], "trace": trace((0, 1, 1)), **request_}
    with pytest.raises(BadRequest) as caught:
        prepare(Request(**whole))
    assert caught.value.field == field
    assert words in caught.value.problem


# --- a stage of one's own


def test_a_class_in_a_file_is_an_order(trace: Callable[..., str], own: str) -> None:
    path = trace((0, 2, 10), (1, 2, 10), (2, 2, 10))
    mine = study(path, f"{own}:Last", params={"starvation_guard": "off"})
    assert ends(run(mine)) == {1: 10.0, 3: 20.0, 2: 30.0}
    assert run(mine).stages["order"] == f"{own}:Last"
    other = study(path, f"{own}:Last", params={"sign": 1})
    assert ends(run(other)) == {1: 10.0, 2: 20.0, 3: 30.0}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own.py", "several that order: Last and Broken"),
        ("own.py:Nobody", "no class 'Nobody'"),
        ("own.py:Nothing", "is no stage"),
        ("other.py:Last", "no file"),
        ("wrong.py:Last", "SyntaxError"),
        ("leaves.py:Last", "SystemExit"),
    ],
)
def test_a_file_that_is_no_stage(trace: Callable[..., str], own: str, name: str, words: str) -> None:
    folder = Path(own).parent
    (folder / "wrong.py").write_text("class Last(\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(BadRequest, match=words):
        study(trace((0, 1, 1)), str(folder / name))


def test_a_file_is_one_row_with_all_its_stages_and_what_lies_beside_it(
    trace: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "signs_of_mine.py").write_text("SIGN = -1\n")
    (tmp_path / "mine.py").write_text(
        "from schedulearn.policy import Order, Place\n"
        "from signs_of_mine import SIGN\n"
        "class Last(Order):\n"
        "    def key(self, job, now, facts):\n"
        "        return (SIGN * job.id,)\n"
        "class Backwards(Place):\n"
        "    def place(self, job, shape, workers, nodes, memory):\n"
        "        return [max(node.name for node in nodes if node.room_for(shape))]\n"
    )
    found = study(trace((0, 1, 10), (0, 1, 20)), "fifo", str(tmp_path / "mine.py"), cluster="2x2", timeline=True)
    plain, mine = (found.run(choice) for choice in found.choices)
    assert (mine.stages["order"], mine.stages["place"]) == (
        f"{tmp_path}/mine.py:Last",
        f"{tmp_path}/mine.py:Backwards",
    )
    assert (plain.segments[0].node, mine.segments[0].node) == ("node0000", "node0001")
    assert str(tmp_path) not in sys.path


def test_a_file_without_stages(trace: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(BadRequest, match="has no stage"):
        study(trace((0, 1, 1)), str(tmp_path / "empty.py"))


def test_a_file_for_the_wrong_stage(trace: Callable[..., str], own: str) -> None:
    with pytest.raises(BadRequest, match="cannot place: it has no method 'place'"):
        study(trace((0, 1, 1)), stages={"place": f"{own}:Last"})


def test_a_stage_of_an_installed_package(trace: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("order.newest", "schedulearn.core.policies.order.srjf:Srjf", plugins.GROUP),
        EntryPoint("order.gone", "schedulearn.nowhere:Srjf", plugins.GROUP),
    ]
    monkeypatch.setattr(plugins, "_points", lambda: points)
    path = trace((0, 2, 10), (1, 2, 9), (2, 2, 1))
    assert ends(run(study(path, "newest", oracle=True))) == {1: 10.0, 3: 11.0, 2: 20.0}
    with pytest.raises(BadRequest, match="cannot be loaded"):
        study(path, stages={"order": "gone"})
    with pytest.raises(BadRequest, match="did you mean 'newest'"):
        study(path, stages={"order": "newst"})


def test_a_policy_that_raises_is_named_with_its_line(trace: Callable[..., str], own: str) -> None:
    with pytest.raises(PolicyFailed, match=r"own.py:Broken failed: ZeroDivisionError") as caught:
        run(study(trace((0, 1, 1)), f"{own}:Broken"))
    assert "return (1 / 0,)" in caught.value.trace


# --- the cluster, the workload


@pytest.mark.parametrize("content", ["- {count: 2, gpus: 1}\n- {name: big, gpus: 4}\n", "nodes: [{gpus: 6}]\n"])
def test_a_cluster_in_a_file(trace: Callable[..., str], tmp_path: Path, content: str) -> None:
    (tmp_path / "c.yaml").write_text(content)
    assert run(study(trace((0, 6, 10)), cluster=str(tmp_path / "c.yaml"))).slots == 6


@pytest.mark.parametrize("content", ["", "[]", "- 4", "a: [", "- {cpus: 8}", "- {gpus: x}"])
def test_a_cluster_that_is_none(trace: Callable[..., str], tmp_path: Path, content: str) -> None:
    (tmp_path / "c.yaml").write_text(content)
    with pytest.raises(BadRequest, match="cluster"):
        study(trace((0, 1, 1)), cluster=str(tmp_path / "c.yaml"))


def test_malformed_rows_and_jobs_that_are_too_large_are_kept_in_mind(trace: Callable[..., str]) -> None:
    path = trace((0, 1, 5), "1,1,-5,10", (2, 3, 5))
    found = study(path)
    assert [problem.line for problem in found.workload.problems] == [3]
    assert found.too_large == [2]
    assert run(found).impossible == [2]
    with pytest.raises(BadRequest, match="line 3"):
        study(path, strict=True)


def test_the_seed_is_that_of_a_synthetic_workload_too() -> None:
    def arrivals(trace: str, seed: int | None) -> list[float]:
        return [job.arrival for job in study(trace, seed=seed).workload.jobs]

    made = "synthetic:philly?jobs=20"
    assert arrivals(made, 3) == arrivals(f"{made}&seed=3", None) == arrivals(f"{made}&seed=3", 4)
    assert arrivals(made, 3) != arrivals(made, 4)


# --- estimates


def facts_of(*jobs: TraceJob) -> tuple[LearnedFacts, list[JobModel]]:
    models = {}
    for number, trace in enumerate(jobs, 1):
        job = make_job(number, trace, SpecMaker(elastic=False).spec(trace))
        job.worked = Accrual(trace.duration)
        models[job.id] = JobModel(job, trace)
    facts = LearnedFacts()
    facts.begin(models)
    return facts, list(models.values())


def test_estimates_come_from_completed_jobs_alone() -> None:
    like = [TraceJob(str(k), 0.0, 10.0 * k, 1, "ann", "mnist") for k in (1, 2, 3, 99)]
    facts, models = facts_of(*like)
    assert facts.duration(models[0].job) == float("inf")
    for model in models[:3]:
        facts.ended(model, 99.0)
    assert facts.duration(models[3].job) == 20.0  # the median of 10, 20, 30


def test_a_waiting_job_keeps_its_estimate_until_it_has_run_again() -> None:
    facts, models = facts_of(*(TraceJob(str(k), 0.0, 10.0, 1, "ann", "mnist") for k in range(5)))
    waiting = models[4].job
    assert facts.remaining(waiting, 0.0) == float("inf")
    for model in models[:3]:
        facts.ended(model, 99.0)
    assert facts.remaining(waiting, 5.0) == float("inf")
    waiting.attempt += 1
    assert facts.remaining(waiting, 6.0) == 10.0


@pytest.mark.parametrize(("policy", "source"), [("srjf", "history"), ("fifo", "not needed")])
def test_the_result_says_where_durations_came_from(policy: str, source: str) -> None:
    made = "synthetic:philly?jobs=200&load=2"
    estimates = run(study(made, policy, cluster="2x4")).estimates
    assert estimates["source"] == source
    if source == "history":
        assert estimates["count"] + estimates["unknown"] == 200
        assert 0 < estimates["median_error"] < 5
        assert 0 <= estimates["within_range"] <= 1
    assert run(study(made, policy, cluster="2x4", oracle=True)).estimates == {"source": "oracle"}


# --- side by side


@pytest.mark.parametrize("processes", [1, 2])
def test_several_policies_at_once_give_what_each_gives_alone(own: str, processes: int) -> None:
    policies = ("fifo", f"{own}:Broken", "srjf")
    several = study("synthetic:philly?jobs=120&load=2", *policies, cluster="2x4", timeline=True)
    told: list[tuple[int, int]] = []
    tasks = [(several, choice) for choice in several.choices]
    outcomes = run_all(tasks, lambda task, done: told.append((task, done)), processes)
    assert [outcome.policy for outcome in outcomes] == list(policies)
    assert isinstance(outcomes[1], PolicyFailed)
    for outcome, choice in zip(outcomes, several.choices, strict=True):
        if isinstance(outcome, Result):
            assert outcome.jobs == several.run(choice).jobs
    assert {(0, 0), (2, 0)} <= set(told)


def test_a_policy_that_takes_its_process_along_keeps_no_other_from_running(own: str) -> None:
    policies = (f"{own}:Deadly", "fifo", "srjf", "srtf", "edf")
    made = study("synthetic:philly?jobs=20", *policies, cluster="2x4")
    outcomes = run_all([(made, choice) for choice in made.choices], lambda *_: None, 2)
    assert [getattr(outcome, "problem", "") for outcome in outcomes] == ["its process ended with 7", "", "", "", ""]


# --- the service's own history


def told(number: int, **more: object) -> str:
    """A line of the history, as the service tells it."""
    about = {"id": number, "submitted_at": f"2026-03-01T10:00:{number:02d}Z", "run_seconds": 60.0, "name": "mnist"}
    return json.dumps({**about, "user": "ann", **more})


def test_a_line_of_the_history_as_a_job_of_a_trace() -> None:
    sizes = {"min": 1, "want": 2, "max": 4}
    lines = [told(17, gpus=1, workers=sizes), told(18, cpus=1.5), told(19, run_seconds=None)]
    found = workload_of(lines)
    assert [(job.label, job.gpus, job.workers, job.cpus) for job in found.jobs] == [
        ("17", 2, (1, 4), 0.0),
        ("18", 0, None, 1.5),
    ]
    assert len(found.problems) == 1


def test_the_history_is_replayed() -> None:
    result = run(prepare(Request(cluster="1x1", policies=["fifo"], history=[told(1, gpus=1), told(3, gpus=1)])))
    assert [job.jct for job in result.jobs] == [60.0, 118.0]  # the second came 2 s later and waited for the first


@pytest.mark.parametrize("cluster", ["1x4c", "mixed"])
def test_without_gpus_the_cores_are_what_is_used(cluster: str, tmp_path: Path) -> None:
    """Two at a time keep half of four cores busy, also where there are GPUs that nobody asks for."""
    if cluster == "mixed":
        cluster = str(tmp_path / "servers.yaml")
        Path(cluster).write_text('[{"name": "a", "gpus": 2, "cpus": 4}]')
    lines = [told(1, cpus=1, submitted_at=0), told(2, cpus=1, submitted_at=0)]
    figures = run(prepare(Request(cluster=cluster, policies=["fifo"], history=lines))).summary()
    assert (figures["used_of"], figures["utilization"]) == ("cores", pytest.approx(0.5))


# --- as other simulators do it


def test_decisions_in_rounds(trace: Callable[..., str]) -> None:
    found = study(trace((5, 1, 50), (70, 1, 30)), rounds="60s", first_start="10s", oracle=True)
    assert [(job.started, job.ended) for job in run(found).jobs] == [(60.0, 120.0), (120.0, 160.0)]


def test_the_settings_of_another_simulator_but_for_what_was_asked_for() -> None:
    made = "synthetic:philly?jobs=10"
    found = prepare(Request("1x8", ["tiresias", "fifo"], made, like="pollux", rounds="30s", params={"promote": 3}))
    assert (found.options.restart_cost, found.options.first_start, found.options.rounds) == (30.0, 30.0, 30.0)
    assert [choice.params for choice in found.choices] == [{"thresholds": 57600, "promote": 3}, {}]
    with pytest.raises(BadRequest, match="no simulator 'polux'"):
        prepare(Request("1x8", ["fifo"], made, like="polux"))


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize(("number", "published"), [(1, 2474), (2, 5145), (3, 3876), (4, 3280)])
def test_pollux_published_averages_of_tiresias_are_met(number: int, published: float) -> None:
    path = str(TRACES / "pollux" / f"workload-{number}.csv")
    found = prepare(Request("16x4", ["tiresias"], path, like="pollux"))
    assert run(found).summary()["avg_jct"] == pytest.approx(published, rel=0.1)
