"""The job spec: what is taken, what is refused and how that is said, and that no input breaks the service."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schedulearn.api.body.kinds import check_pattern
from schedulearn.api.body.spec import JobIn, default_name, spec_out
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.spec import (
    Batches,
    JobSpec,
    Launcher,
    Metric,
    Preemptible,
    Target,
    WorkerResources,
    Workers,
)
from schedulearn.service.gateway.admission import check_possible

NOW = 1_800_000_000.0
JOBS = "/api/v1/jobs"


def parsed(**fields: Any) -> JobSpec:
    return JobIn.model_validate({"command": "true", **fields}).to_domain(NOW)


# --- what is taken


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (2, Workers(2, 2, 2)),
        ("2", Workers(2, 2, 2)),
        ("1..4", Workers(1, 1, 4)),
        ({"min": 1, "want": 2, "max": 4}, Workers(1, 2, 4)),
        ({"want": 3}, Workers(1, 3, 3)),
        ({"min": 2}, Workers(2, 2, 2)),
    ],
)
def test_workers(written: Any, meant: Workers) -> None:
    assert parsed(workers=written).workers == meant


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"time_limit": "1h30m"}, "time_limit", 5400.0),
        ({"time_limit": 90}, "time_limit", 90.0),
        ({"grace": "0s"}, "grace", 0.0),
        ({"deadline": "6h"}, "deadline", NOW + 6 * 3600),
        ({"deadline": "2027-01-15T09:00:00Z"}, "deadline", NOW + 3600),
        ({"deadline": "2027-01-15T10:00:00+01:00"}, "deadline", NOW + 3600),
        ({"deadline": "2027-01-15T09:00:00"}, "deadline", NOW + 3600),
        ({"preemptible": True}, "preemptible", Preemptible.YES),
        ({"preemptible": "auto"}, "preemptible", Preemptible.AUTO),
        ({"env": {"LR": 0.1, "N": 3, "S": "x"}}, "env", {"LR": "0.1", "N": "3", "S": "x"}),
        ({"target": {"loss": 0.05, "then": "stop"}}, "target", Target(0.05, "stop")),
        ({"target": {"loss": "1e-3"}}, "target", Target(0.001)),
        ({"metric": {"name": "acc", "goal": "max"}, "target": {"acc": 1}}, "target", Target(1.0, "yield")),
        ({"command": ["python", "train.py"]}, "command", ("python", "train.py")),
        ({"depends_on": [3, 3, 1]}, "depends_on", (3, 1)),
        ({"launcher": "torchrun"}, "launcher", Launcher.TORCHRUN),
        ({"notify": ["ann@example.org"]}, "notify", ("mailto:ann@example.org",)),
        ({"notify": [{"failed": "https://h.example/x"}]}, "notify", ("failed:https://h.example/x",)),
        ({}, "max_restarts", 0),
        ({}, "priority", 50),
        ({"batch": "32..512"}, "batch", Batches(32, 512)),
        ({"resources": {"cpus": "0.5..4"}}, "resources", WorkerResources(cpus_min=0.5, cpus_max=4.0)),
        ({"resources": {"memory": "4GB"}}, "resources", WorkerResources(memory=4 * 10**9)),
        ({"resources": {"gpus": 1, "gpu_type": "A100"}}, "resources", WorkerResources(gpus=1, gpu_type="A100")),
    ],
)
def test_humane_forms(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(parsed(**fields), name) == value


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 20", "train"),
        ("CUDA=0 python3 -u src/fit.py", "fit"),
        ("python -m pkg.train", "pkg.train"),
        ("./run.sh", "run"),
        ("python", "python"),
        ("echo 'unbalanced", "echo"),
        (("python", "a b.py"), "a b"),
        ("-", "job"),
        ("x" * 1000, "x" * 80),
    ],
)
def test_a_name_is_made_from_the_command(command: Any, name: str) -> None:
    assert default_name(command, None) == name


# --- what is refused: the field is named, and what is allowed is said

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"comand": "x"}, "comand", "command"),
    ({"unheard_of": 1}, "unheard_of", "command"),
    ({"resources": {"gpu": 1}}, "resources.gpu", "gpus"),
    ({"workers": {"min": 1, "maximum": 2}}, "workers.maximum", "max"),
    ({"metric": {"patern": "x"}}, "metric.patern", "pattern"),
    ({"command": ""}, "command", "not empty"),
    ({"command": "  "}, "command", "not empty"),
    ({"command": []}, "command", "list of texts"),
    ({"command": ["a", 1]}, "command", "list of texts"),
    ({"command": 7}, "command", "list of texts"),
    ({"command": "x" * 200_000}, "command", "at most"),
    ({"command": None}, "command", "not empty"),
    ({"name": ""}, "name", "at least 1"),
    ({"name": "x" * 201}, "name", "at most 200"),
    ({"name": "two\nlines"}, "name", "one line"),
    ({"name": 3}, "name", ""),
    ({"name": "nul\0"}, "", "NUL"),
    ({"priority": 101}, "priority", "a whole number, 0 to 100"),
    ({"priority": -1}, "priority", "a whole number, 0 to 100"),
    ({"priority": "high"}, "priority", "a whole number, 0 to 100"),
    ({"priority": True}, "priority", "a whole number, 0 to 100"),
    ({"priority": 50.5}, "priority", "a whole number, 0 to 100"),
    ({"workers": 0}, "workers.min", "at least 1"),
    ({"workers": -3}, "workers", "range"),
    ({"workers": 10_001}, "workers.min", "at most 10000"),
    ({"workers": "4..1"}, "workers", "1..4"),
    ({"workers": "1.5"}, "workers", "a range of them such as 1..4"),
    ({"workers": True}, "workers", "range"),
    ({"workers": {"min": 3, "want": 2}}, "workers", "min ≤ want ≤ max"),
    ({"resources": {"gpus": 1025}}, "resources.gpus", "at most 1024"),
    ({"resources": {"gpus": -1}}, "resources.gpus", "at least 0"),
    ({"resources": {"gpus": 0.5}}, "resources.gpus", ""),
    ({"resources": {"gpu_type": "A100"}}, "resources.gpu_type", "at least 1"),
    ({"resources": {"cpus": 0}}, "resources.cpus", "0.01..10000"),
    ({"resources": {"cpus": -1}}, "resources.cpus", "range"),
    ({"resources": {"cpus": "1..99999"}}, "resources.cpus", "0.01..10000"),
    ({"resources": {"cpus": "1..1e99"}}, "resources.cpus", "a range such as 1..4"),
    ({"resources": {"memory": "much"}}, "resources.memory", "4GB"),
    ({"resources": {"memory": -5}}, "resources.memory", "4GB"),
    ({"resources": {"memory": 10**30}}, "", "63 bits"),
    ({"resources": {"memory": "9999999999TB"}}, "resources.memory", "bytes"),
    ({"resources": []}, "resources", ""),
    ({"time_limit": "soon"}, "time_limit", "6h"),
    ({"time_limit": 0}, "time_limit", "1 s to"),
    ({"time_limit": "9999999d"}, "time_limit", "to 3650 d"),
    ({"grace": "2d"}, "grace", "to 1 d"),
    ({"deadline": "tomorrow"}, "deadline", "2030-01-31"),
    ({"deadline": "2001-01-01"}, "deadline", "in the future"),
    ({"deadline": "9999-12-31T23:59:59-23:59"}, "deadline", "in the future"),
    ({"deadline": -1}, "deadline", "6h"),
    ({"max_restarts": -1}, "max_restarts", "at least 0"),
    ({"steps": 0}, "steps", "at least 1"),
    ({"batch": 32}, "batch", "32..512"),
    ({"batch": "512..32"}, "batch", "32..512"),
    ({"batch": "0..32"}, "batch", "32..512"),
    ({"preemptible": "perhaps"}, "preemptible", "auto, true or false"),
    ({"launcher": "mpi"}, "launcher", "torchrun"),
    ({"launcher": "horovod", "command": "horovodrun -np 2 python train.py"}, "command", "what each process runs"),
    ({"launcher": "horovod", "workers": "1..2", "resources": {"gpus": 1}}, "workers", "one number of workers"),
    ({"env": {"TOKEN": None}}, "env.TOKEN", "a text"),
    ({"env": {"DEBUG": True}}, "env.DEBUG", "quotes"),
    ({"env": {"A=B": "x"}}, "env", "without ="),
    ({"env": []}, "env", "names"),
    ({"depends_on": ["1"]}, "depends_on.0", ""),
    ({"depends_on": [0]}, "depends_on.0", "at least 1"),
    ({"depends_on": [99]}, "depends_on", "exist"),
    ({"metric": {"goal": "up"}}, "metric.goal", "'min' or 'max'"),
    ({"metric": {"pattern": "("}}, "metric.pattern", "one group"),
    ({"metric": {"pattern": "loss"}}, "metric.pattern", "exactly one group"),
    ({"metric": {"pattern": "(a)(b)"}}, "metric.pattern", "exactly one group"),
    ({"metric": {"pattern": "(" + "a" * 600 + ")"}}, "metric.pattern", "at most 500"),
    ({"metric": {"pattern": "(?=a)(b)"}}, "metric.pattern", "no look-around"),
    ({"metric": {"pattern": r"(a)\1"}}, "metric.pattern", "no back-references"),
    ({"metric": {"pattern": "(?x)(?:a+) +(b)"}}, "metric.pattern", "RE2"),
    ({"metric": {"pattern": "(a{1000}){1000}"}}, "metric.pattern", "RE2"),
    ({"metric": {"pattern": "(.{300})"}}, "metric.pattern", "fewer or smaller repetitions"),
    ({"metric": {"pattern": "(" + r"\pL" * 160 + ")"}}, "metric.pattern", "RE2"),
    ({"target": {"acc": 1}}, "target", "loss"),
    ({"target": {"loss": "low"}}, "target", "number"),
    ({"target": {"loss": "nan"}}, "target", "number"),
    ({"target": {"loss": "1e400"}}, "target", "number"),
    ({"target": {"loss": 1, "then": "party"}}, "target", "yield or stop"),
    ({"workdir": "/home/ann"}, "workdir", "snapshot"),
    ({"workdir": "../../etc"}, "workdir", "snapshot"),
    ({"snapshot": "../../etc/passwd"}, "snapshot", "64 hexadecimal digits"),
    ({"snapshot": "0" * 64}, "snapshot", "uploaded"),
    ({"image": "pytorch:latest"}, "image", "leave it out"),
    ({"setup": ["pip install x"]}, "setup", "leave it out"),
    ({"mounts": ["/data"]}, "mounts", "leave it out"),
    ({"resources": {"gpus": 3}}, "resources.gpus", "at most 2 GPUs"),
    ({"resources": {"cpus": 8}}, "resources.cpus", "at most 5 cores"),
    ({"resources": {"gpus": 1, "cpus": 8}}, "resources.cpus", "at most 7 cores"),
    ({"resources": {"memory": "16GB"}}, "resources.memory", "at most 15 GB"),
    ({"resources": {"gpus": 1, "gpu_type": "H100"}}, "resources.gpu_type", "A100, T4"),
    ({"resources": {"gpus": 2, "gpu_type": "T4"}}, "resources.gpus", "at most 1 GPU"),
    ({"workers": 3, "resources": {"gpus": 1}}, "workers", "at most 2"),
]


@pytest.mark.parametrize(("fields", "field", "allowed"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused(world: Any, ann: Any, problem: Any, fields: dict[str, Any], field: str, allowed: str) -> None:
    body = problem(ann.post(JOBS, json={"command": "true", **fields}), 422)
    assert body["field"] == field, body
    assert allowed in body["allowed"], body
    assert body["errors"][0]["field"] == field
    assert len(json.dumps(body)) < 5000
    assert ann.get(JOBS).json()["total"] == 0
    assert not world.wakes


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"priority": 101}, "priority: 101 is not a priority (allowed: a whole number, 0 to 100)"),
        ({"priority": "high"}, "priority: 'high' is not a priority (allowed: a whole number, 0 to 100)"),
        ({"steps": 0}, "steps: 0 is too small (allowed: at least 1)"),
        ({"steps": 1.5}, "steps: 1.5 is not a whole number"),
        ({"name": 7}, "name: 7 is not a text"),
    ],
)
def test_in_our_own_words(ann: Any, problem: Any, fields: dict[str, Any], detail: str) -> None:
    assert problem(ann.post(JOBS, json={"command": "true", **fields}), 422)["detail"] == detail


def test_every_wrong_field_is_named_at_once(ann: Any) -> None:
    errors = ann.post(JOBS, json={"command": "true", "priority": 101, "steps": 0, "grace": "x"}).json()["errors"]
    assert [error["field"] for error in errors] == ["steps", "priority", "grace"]


def test_the_errors_of_one_answer_are_bounded(ann: Any) -> None:
    answer = ann.post(JOBS, json={"command": "true", "depends_on": [0] * 900}).json()
    assert len(answer["errors"]) == 20


def test_without_any_node_every_job_waits() -> None:
    check_possible(parsed(resources={"gpus": 1000}), [])


def test_a_device_in_outside_use_may_come_back(ann: Any) -> None:
    assert ann.post(JOBS, json={"command": "true", "resources": {"gpus": 2}}).status_code == 201


@pytest.mark.parametrize(
    "pattern",
    [
        r"loss[:=]\s*([0-9.]+)",
        r"(?:train|val)_loss=(\d+\.?\d*(?:[eE][-+]?\d+)?)",
        r"\[(\d+)\]",
        r"[(*+](x)",
        r"\((a+)\)",
        r"(?P<value>\d)",
        r"a{2}(b)",
        r"(a*)*",
        r"(?:a|aa)+(b)",
        r"a*a*a*a*a*a*(b)",
        r"(\pL+)",
    ],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["(" * 500, "(a" * 250 + ")" * 250, "(?:" * 99 + "(a)" + "){9}" * 99, "(\ud800)"])
def test_patterns_that_cannot_be_used_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="it"):
        check_pattern(pattern)


@given(st.text(max_size=500) | st.text(st.sampled_from("()[]{}*+?|.\\^$ab019,-:=!<PpLN"), max_size=500))
def test_any_text_is_a_pattern_or_is_refused_plainly(pattern: str) -> None:
    with suppress(ValueError):
        assert check_pattern(pattern) == pattern


# --- properties

names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
worker_counts = st.lists(st.integers(1, 100), min_size=3, max_size=3).map(lambda n: Workers(*sorted(n)))
cores = st.lists(st.floats(0.01, 1e4), min_size=2, max_size=2).map(sorted)
seconds = st.integers(1, 10**6).map(float)
batches = st.lists(st.integers(1, 10**6), min_size=2, max_size=2).map(lambda sizes: Batches(*sorted(sizes)))


@st.composite
def specs(draw: Any) -> JobSpec:
    low, high = draw(cores)
    gpus = draw(st.integers(0, 8))
    size = st.none() | st.integers(10**6, 10**15)
    metric = draw(st.builds(Metric, names, st.sampled_from(["min", "max"]), st.just(r"x=(\d+)") | st.none()))
    target = st.builds(Target, st.floats(-1e6, 1e6), st.sampled_from(["yield", "stop"]))
    launcher, workers = draw(st.sampled_from(Launcher)), draw(worker_counts)
    if launcher is Launcher.HOROVOD and gpus:
        workers = Workers(workers.max, workers.max, workers.max)
    return JobSpec(
        name=draw(names),
        command=draw(names | st.lists(names, min_size=1, max_size=4).map(tuple)),
        env=draw(st.dictionaries(names.filter(lambda name: "=" not in name), values, max_size=3)),
        launcher=launcher,
        workers=workers,
        resources=WorkerResources(gpus, draw(st.none() | names) if gpus else None, low, high, draw(size), draw(size)),
        steps=draw(st.none() | st.integers(1, 10**9)),
        batch=draw(st.none() | batches),
        priority=draw(st.integers(0, 100)),
        deadline=draw(st.none() | seconds.map(lambda s: NOW + s)),
        time_limit=draw(st.none() | seconds),
        max_restarts=draw(st.integers(0, 10)),
        grace=draw(st.floats(0, 86400)),
        preemptible=draw(st.sampled_from(Preemptible)),
        depends_on=tuple(JobId(i) for i in draw(st.lists(st.integers(1, 100), max_size=3, unique=True))),
        metric=metric,
        target=draw(st.none() | target) if metric.name != "then" else None,
        notify=tuple(draw(st.lists(st.sampled_from(["mailto:a@b", "failed:https://h/x"]), max_size=2))),
    )


@given(specs())
def test_a_spec_that_is_written_out_reads_back_the_same(spec: JobSpec) -> None:
    written = json.loads(json.dumps(spec_out(spec, private=True)))
    assert JobIn.model_validate(written).to_domain(NOW) == spec


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
likely = st.sampled_from(["1..4", "4GB", "6h", "auto", "torchrun", "2030-01-01", {"min": 1}, {"loss": 0.1}, [1], {}, 0])
bodies = st.dictionaries(st.sampled_from([*JobIn.model_fields, "resource"]), anything | likely, max_size=8)


@given(bodies)
def test_no_spec_breaks_the_reader(body: dict[str, Any]) -> None:
    try:
        JobIn.model_validate({"command": "true", **body})
    except ValidationError:
        return


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(bodies)
def test_no_body_breaks_the_service(ann: Any, body: dict[str, Any]) -> None:
    content = json.dumps({"command": "true", **body})
    answer = ann.post(f"{JOBS}?dry_run=true", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 422:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["errors"][0].keys() == {"field", "problem", "allowed"}


def test_a_job_in_the_form_of_the_first_schedulearn_is_answered_with_the_present_one(ann: Any) -> None:
    old = {"jobname": "cifar", "jobtype": "Pytorch", "image": "torch", "command": "python train.py", "requiredgpus": 3}
    answer = ann.post(JOBS, json=old)
    assert answer.status_code == 422
    body = answer.json()
    assert body["field"] == "jobname"
    assert "the first Schedulearn" in body["detail"]
    found = json.loads(body["allowed"])
    expected = {"name": "cifar", "image": "torch", "command": "python train.py"}
    assert found == {**expected, "launcher": "horovod", "workers": 3, "resources": {"gpus": 1}}
    JobIn.model_validate(found)  # which would raise
    sent_as_then = ann.post("/api/v1/post", json=old)
    assert sent_as_then.status_code == 404
    assert "POST /api/v1/jobs" in sent_as_then.json()["detail"]


@pytest.mark.parametrize(
    "odd", [{"requiredgpus": -1}, {"requiredgpus": True, "command": ["a"]}, {"jobname": "\ud800" * 9}]
)
def test_odd_values_of_that_form_are_not_shown_again(ann: Any, odd: Any) -> None:
    answer = ann.post(JOBS, content=json.dumps({"jobtype": "x", **odd}), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
