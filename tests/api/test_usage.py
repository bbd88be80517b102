"""What workers use, over the API and for Prometheus; and a CPU limit that is changed."""

from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.domain.ids import JobId, WorkerId
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.store import UsageSample

JOBS = "/api/v1/jobs"
AT = 1_800_000_000.0
FULL = Usage(AT, 2.0, 500, 10, 20, 30, 40, 5.5, Limits(1.5, 100, 10**9))


def look(world: Any, worker: WorkerId, *looks: Usage, cpus: float | None = None) -> None:
    for one in looks:
        world.store.add_usage([UsageSample(worker, one, cpus)])


@pytest.fixture
def worker(world: Any, job: int) -> WorkerId:
    world.run(job)
    return WorkerId(JobId(job), 1, 0)


def test_over_time(world: Any, ann: Any, job: int, worker: WorkerId) -> None:
    look(world, worker, FULL, replace(FULL, at=AT + 10, cpu_seconds=9.0, memory=400), cpus=0.7)
    answer = ann.get(f"{JOBS}/{job}/usage").json()
    assert answer["attempt"] == f"{job}.1"
    (used,) = answer["workers"]
    assert (used["worker"], used["memory_peak"]) == (f"{job}.1.0", 500)
    assert [point["cpus"] for point in used["points"]] == [None, 0.7]
    assert used["points"][-1] == used["latest"]
    assert used["latest"] == {
        "at": "2027-01-15T08:00:10.000000Z", "cpus": 0.7, "cpu_seconds": 9.0, "memory": 400, "read_bytes": 10,
        "written_bytes": 20, "received_bytes": 30, "sent_bytes": 40, "energy": 5.5, "cpus_limit": 1.5, "weight": 100,
        "memory_limit": 10**9,
    }  # fmt: skip


def test_the_rate_between_points_is_exact_however_few_there_are(
    world: Any, ann: Any, job: int, worker: WorkerId
) -> None:
    look(world, worker, *(Usage(AT + n, 0.5 * n) for n in range(50)))
    (used,) = ann.get(f"{JOBS}/{job}/usage?max_points=5").json()["workers"]
    assert len(used["points"]) <= 5
    assert {point["cpus"] for point in used["points"][1:]} == {0.5}


def test_since(world: Any, ann: Any, job: int, worker: WorkerId) -> None:
    look(world, worker, *(Usage(AT + n, 0.5 * n) for n in range(50)))
    for since in ("2027-01-15T08:00:40Z", "2027-01-15T08:00:40", "2027-01-15T10:00:40+02:00"):
        (used,) = ann.get(f"{JOBS}/{job}/usage", params={"since": since}).json()["workers"]
        assert [point["at"][17:19] for point in used["points"]] == [str(n) for n in range(40, 50)]


def test_attempts(world: Any, ann: Any, job: int, worker: WorkerId, problem: Any) -> None:
    look(world, worker, FULL)
    world.save(leases_ended=[worker])
    world.run(job)
    assert ann.get(f"{JOBS}/{job}/usage").json() == {"attempt": f"{job}.2", "workers": [], "total": 0}
    assert len(ann.get(f"{JOBS}/{job}/usage?attempt=1").json()["workers"]) == 1
    assert "no attempt 3" in problem(ann.get(f"{JOBS}/{job}/usage?attempt=3"), 404)["detail"]


def test_workers_come_in_pages(world: Any, ann: Any, job: int, worker: WorkerId) -> None:
    look(world, worker, FULL)
    page = ann.get(f"{JOBS}/{job}/usage?limit=1").json()
    assert (len(page["workers"]), page["total"]) == (1, 1)
    assert ann.get(f"{JOBS}/{job}/usage?offset=1").json() == {"attempt": f"{job}.1", "workers": [], "total": 1}


@pytest.mark.parametrize(
    "query", ["since=yesterday", "max_points=0", "max_points=3000", "attempt=0", "limit=501", "offset=-1"]
)
def test_questions_that_make_no_sense(ann: Any, job: int, problem: Any, query: str) -> None:
    name = query.partition("=")[0]
    assert problem(ann.get(f"{JOBS}/{job}/usage?{query}"), 422)["field"] == name


def test_nothing_is_known_yet(ann: Any, nobody: Any, job: int, problem: Any) -> None:
    assert ann.get(f"{JOBS}/{job}/usage").json() == {"attempt": f"{job}.0", "workers": [], "total": 0}
    problem(nobody.get(f"{JOBS}/{job}/usage"), 401)
    problem(ann.get(f"{JOBS}/99/usage"), 404)


def test_for_prometheus(world: Any, ann: Any, job: int, worker: WorkerId, monkeypatch: Any) -> None:
    other = ann.post(JOBS, json={"command": "true"}).json()["id"]
    world.run(other)
    look(world, worker, FULL, cpus=0.75)
    look(world, WorkerId(JobId(other), 1, 0), Usage(AT, 3.0))
    lines = ann.get("/metrics").text.splitlines()
    assert f'schedulearn_job_cpus{{job="{job}"}} 0.75' in lines
    assert f'schedulearn_job_cpus_limit{{job="{job}"}} 1.5' in lines
    assert f'schedulearn_job_memory_bytes{{job="{job}"}} 500.0' in lines
    assert f'schedulearn_job_cpu_seconds_total{{job="{job}"}} 2.0' in lines
    assert f'schedulearn_job_sent_bytes_total{{job="{job}"}} 40.0' in lines
    assert f'schedulearn_job_energy_joules_total{{job="{job}"}} 5.5' in lines
    assert f'schedulearn_job_cpu_seconds_total{{job="{other}"}} 3.0' in lines
    assert not any(f'schedulearn_job_memory_bytes{{job="{other}"' in line for line in lines), "it is not known"
    monkeypatch.setattr("schedulearn.api.routes.prometheus._MOST_JOBS", 1)
    fewer = ann.get("/metrics").text
    assert f'cpu_seconds_total{{job="{other}"}}' in fewer
    assert f'cpu_seconds_total{{job="{job}"}}' not in fewer, "the newest stay"


def test_a_job_that_has_ended_is_no_series_any_more(world: Any, ann: Any, worker: WorkerId) -> None:
    look(world, worker, FULL)
    world.save(leases_ended=[worker])
    assert "schedulearn_job_cpus{job=" not in ann.get("/metrics").text


# --- a limit that is changed


@pytest.fixture
def elastic(ann: Any) -> int:
    return int(ann.post(JOBS, json={"command": "true", "resources": {"cpus": "0.5..4"}}).json()["id"])


@pytest.mark.parametrize("limit", [0.5, 1, 3.25, 8, None])
def test_a_limit_is_asked_for(world: Any, ann: Any, elastic: int, limit: float | None) -> None:
    answer = ann.patch(f"{JOBS}/{elastic}", json={"cpus_limit": limit})
    assert answer.json()["cpus_limit"] == limit
    assert world.requests() == [("update", elastic, {"cpus_limit": limit}, "ann")]


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [(0.4, "0.5..8"), (8.5, "0.5..8"), (0, "0.01..10000"), (-1, "0.01..10000"), ("2", ""), (True, ""), ([1], "")],
)
def test_a_limit_that_cannot_be(world: Any, ann: Any, elastic: int, problem: Any, limit: object, allowed: str) -> None:
    told = problem(ann.patch(f"{JOBS}/{elastic}", json={"cpus_limit": limit}), 422)
    assert told["field"] == "cpus_limit"
    assert allowed in told["allowed"]
    assert world.requests() == []


def test_only_the_owner_and_administrators(world: Any, bob: Any, root: Any, elastic: int, problem: Any) -> None:
    problem(bob.patch(f"{JOBS}/{elastic}", json={"cpus_limit": 1}), 403)
    assert root.patch(f"{JOBS}/{elastic}", json={"cpus_limit": 1}).status_code == 200
