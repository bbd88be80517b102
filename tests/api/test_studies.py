"""Comparisons of policies beside the service, and reports that were put into its folder."""

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from schedulearn.core.domain.job import Accrual
from schedulearn.core.domain.states import JobState
from schedulearn.service.studies import comparison
from schedulearn.service.studies.comparison import Limits
from schedulearn.service.studies.present import present_of
from schedulearn.store import Point
from support.waiting import wait_until

from .conftest import NOW, World

STUDIES = "/api/v1/studies"
PATIENCE = 120.0
# Keeps a simulator busy for much longer than any test: so many jobs on so many servers.
WIDE = "3000x1"
LONG = "".join(
    json.dumps({"id": i, "submitted_at": i, "run_seconds": 5000 + i, "gpus": 1}) + "\n" for i in range(10_000)
)
TRACE = "".join(json.dumps({"id": i, "submitted_at": 10 * i, "run_seconds": 100, "gpus": 1}) + "\n" for i in range(30))


def finish(world: World, job: int, seconds: float) -> None:
    """It has run for so long, and its loss has fallen."""
    attempt = world.run(job)
    points = [Point(step, NOW + step, step, "loss", 1 / step) for step in range(1, 11)]
    world.store.add_points(attempt.job, attempt.number, 0, "report", points)
    done = world.job(job)
    done.state, done.started_at, done.finished_at = JobState.SUCCEEDED, NOW, NOW + seconds
    done.ran = done.worked = Accrual(seconds)
    world.save(jobs=[done])


@pytest.fixture
def over(world: World) -> Iterator[Callable[..., dict[str, Any]]]:
    """Waits until a study is over."""

    def wait(client: Any, name: str) -> dict[str, Any]:
        def ended() -> Any:
            found = client.get(f"{STUDIES}/{name}").json()
            return found if found["state"] != "running" else None

        return dict(wait_until(ended, PATIENCE, f"{name} is over"))

    yield wait
    world.gateway.studies.close()


def start(client: Any, **body: Any) -> dict[str, Any]:
    answer = client.post(STUDIES, json={"policies": ["fifo", "srjf"], **body})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_the_history_is_replayed_on_our_servers(world: World, ann: Any, over: Any) -> None:
    for seconds in (100.0, 20.0, 50.0):
        job = ann.post("/api/v1/jobs", json={"command": "python train.py", "name": "t"}).json()["id"]
        finish(world, job, seconds)
    study = start(ann, policies=["fifo", "flowcon", "fifo"])
    assert (study["title"], study["user"], study["has_report"]) == ("history on our servers", "ann", False)
    done = over(ann, study["name"])
    assert (done["state"], done["problem"], done["progress"]) == ("done", "", None)
    assert [row[0] for row in done["summary"]["rows"]] == ["fifo", "flowcon"]
    assert done["about"] == "3 jobs on 1 node"
    folder = world.data / "reports" / study["name"]
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line["run_seconds"] for line in lines] == [100.0, 20.0, 50.0]
    assert lines[0]["cpus"] == 1.0
    assert lines[0]["curve"][-1] == [1.0, 0.1]
    told = ann.get("/api/v1/history").text  # what `compare --history` replays is the same
    assert told == (folder / "history.jsonl").read_text()
    assert ann.get("/api/v1/history?limit=1").text == told.splitlines(keepends=True)[-1]
    report = ann.get(f"{STUDIES}/{study['name']}/report")
    assert report.headers["content-type"].startswith("text/html")
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "history on servers.yaml" in report.text
    assert [one["name"] for one in ann.get(STUDIES).json()["studies"]] == [study["name"]]


def test_what_if_on_the_queue_as_it_is(world: World, ann: Any, over: Any) -> None:
    """By the estimates of the service: three jobs of the name took 100 s."""
    secret = {"command": "python train.py --key hunter2", "env": {"KEY": "hunter2"}, "name": "t"}
    for _ in range(3):
        finish(world, ann.post("/api/v1/jobs", json={**secret, "resources": {"gpus": 1}}).json()["id"], 100.0)
    running, waits = (ann.post("/api/v1/jobs", json={**secret, "resources": {"gpus": 1}}).json()["id"] for _ in "ab")
    world.run(running, "GPU-0")
    study = start(ann, now=True, policies=["fifo", "srjf"])
    assert (study["title"], study["kind"], study["user"]) == ("the queue now", "what-if", "ann")
    done = over(ann, study["name"])
    assert (done["state"], done["problem"], done["has_report"]) == ("done", "", False)
    told = done["prediction"]
    assert told["policies"] == ["schedulearn", "fifo", "srjf"], "the one in force first"
    assert [job["job"] for job in told["jobs"]] == [running, waits]
    assert {job["source"] for job in told["jobs"]} == {"jobs of the same user, name and size"}
    assert [round(job["finishes"]["fifo"]["expected"]) for job in told["jobs"]] == [100, 200]
    assert told["average"]["fifo"]["expected"] == 150
    assert done["summary"]["columns"] == ["policy", "average completion"]
    folder = world.data / "reports" / study["name"]
    assert not (folder / "present.pickle").exists()
    assert b"hunter2" not in b"".join(file.read_bytes() for file in folder.iterdir())


def test_what_if_needs_jobs_and_takes_no_workload(ann: Any, problem: Any) -> None:
    assert problem(ann.post(STUDIES, json={"policies": ["fifo"], "now": True}), 422)["field"] == "now"
    for field, value in (("trace", TRACE), ("cluster", "2x4")):
        body = {"policies": ["fifo"], "now": True, field: value}
        assert problem(ann.post(STUDIES, json=body), 422)["field"] == field


def test_what_is_looked_at_ahead_does_not_hold_the_environment_of_jobs(world: World, ann: Any) -> None:
    job = ann.post("/api/v1/jobs", json={"command": "train --key hunter2", "env": {"KEY": "hunter2"}}).json()["id"]
    present = present_of(world.store, NOW, lambda number: number == job)
    assert present.jobs[0].checkpointed
    assert b"hunter2" not in pickle.dumps(present)


def test_a_trace_of_ones_own_on_a_cluster_of_ones_own(ann: Any, over: Any) -> None:
    study = start(ann, trace=TRACE, trace_name="mine.jsonl", cluster="2x4")
    done = over(ann, study["name"])
    assert (done["title"], done["state"], done["about"]) == ("mine.jsonl on 2x4", "done", "30 jobs on 2 nodes")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"policies": []}, "policies"),
        ({"policies": ["fifo", "/tmp/evil.py:Evil"]}, "policies"),
        ({"policies": ["fifo"], "trace": TRACE, "cluster": "/etc/passwd"}, "cluster"),
        ({"policies": ["fifo"], "trace": TRACE, "cluster": "9999999x4"}, "cluster"),
        ({"policies": ["fifo"], "trace": " "}, "trace"),
        ({"policies": ["fifo"], "trace": "x\n" * 20_002}, "trace"),
        ({"policies": ["fifo"], "trace": "x\r" * 20_002}, "trace"),
        ({"policies": ["fifo"], "trace": "x" * 800_001}, "trace"),
        ({"policies": ["fifo"]}, "trace"),  # nothing was run yet
        ({"policies": ["fifo"], "trace": TRACE, "trace_name": "a\nb"}, "trace_name"),
        ({"policies": ["fifo"], "out": "/tmp"}, "out"),
    ],
)
def test_what_makes_no_sense_is_refused(world: World, ann: Any, problem: Any, body: Any, field: str) -> None:
    assert problem(ann.post(STUDIES, json=body), 422)["field"].startswith(field)
    assert not (world.data / "reports").exists()


def test_a_trace_that_cannot_be_read_fails_in_words(ann: Any, over: Any) -> None:
    done = over(ann, start(ann, trace="a,b\n1,2\n", cluster="2x4")["name"])
    assert done["state"] == "failed"
    assert "cannot tell the format of trace.csv" in done["problem"]
    assert ann.get(f"{STUDIES}/{done['name']}/report").status_code == 404


def test_one_at_a_time_and_only_ones_own_is_cancelled(
    world: World, root: Any, ann: Any, bob: Any, over: Any, problem: Any
) -> None:
    study = start(ann, trace=LONG, cluster=WIDE, policies=["srtf"])["name"]
    assert (
        "a comparison of yours"
        in problem(ann.post(STUDIES, json={"policies": ["fifo"], "trace": TRACE}), 409)["detail"]
    )
    problem(bob.post(f"{STUDIES}/{study}/cancel"), 403)
    problem(bob.delete(f"{STUDIES}/{study}"), 403)
    other = start(bob, trace=LONG, cluster=WIDE, policies=["srtf"])["name"]
    assert "try again" in problem(root.post(STUDIES, json={"policies": ["fifo"], "trace": TRACE}), 409)["detail"]
    process = world.gateway.studies._running[study]._process
    simulator = psutil.Process(process.pid)
    assert simulator.nice() == 19
    assert simulator.rlimit(psutil.RLIMIT_AS) == (4_000_000_000, 4_000_000_000)
    assert simulator.rlimit(psutil.RLIMIT_CPU) == (901, 901)
    assert simulator.rlimit(psutil.RLIMIT_FSIZE) == (100_000_000, 100_000_000)
    wait_until(lambda: ann.get(f"{STUDIES}/{study}").json()["progress"]["total"] == 10_000, PATIENCE, "it counts")
    answer = ann.post(f"{STUDIES}/{study}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    assert answer.json()["problem"] == "cancelled by ann"
    assert process.returncode is not None
    problem(ann.post(f"{STUDIES}/{study}/cancel"), 409)
    assert root.delete(f"{STUDIES}/{other}").status_code == 204
    assert bob.get(f"{STUDIES}/{other}").status_code == 404
    start(ann, trace=TRACE, cluster="2x4")  # there is room again


def test_it_ends_when_it_takes_too_long(world: World, ann: Any, over: Any) -> None:
    world.gateway.studies._limits = Limits(seconds=0.2)
    done = over(ann, start(ann, trace=LONG, cluster=WIDE)["name"])
    assert (done["state"], done["has_report"]) == ("failed", False)
    assert "longer than 0.2 s" in done["problem"]


def test_it_ends_with_the_service(world: World, ann: Any) -> None:
    study = start(ann, trace=LONG, cluster=WIDE)["name"]
    process = world.gateway.studies._running[study]._process
    world.gateway.studies.close()
    assert process.returncode is not None
    assert ann.get(f"{STUDIES}/{study}").json()["problem"] == "the service was stopped"


def test_it_ends_when_the_service_is_killed(world: World, ann: Any) -> None:
    study = start(ann, trace=LONG, cluster=WIDE)["name"]
    running = world.gateway.studies._running[study]
    process = running._process
    wait_until(lambda: running.progress()["total"], PATIENCE, "it runs")
    assert process.stdin
    process.stdin.close()  # which the system does when this process is killed
    wait_until(lambda: process.returncode is not None, PATIENCE, "it has ended")
    assert process.returncode == 1, "it did not come to its own end"


def test_times_beyond_all_measure_are_told_in_words(ann: Any, over: Any) -> None:
    row = {"id": 1, "submitted_at": 0, "run_seconds": 1e308, "gpus": 1}
    done = over(ann, start(ann, trace=json.dumps(row) + "\n", cluster="2x4")["name"])
    assert "run_seconds is beyond all measure" in done["problem"]


def test_a_fault_of_the_simulator_shows_nothing_of_the_machine(
    ann: Any, over: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "raise KeyError('odd')"
    monkeypatch.setattr(comparison, "_COMMAND", (sys.executable, "-c", code))
    done = over(ann, start(ann, trace=TRACE, cluster="2x4")["name"])
    assert (done["state"], done["problem"]) == ("failed", "the simulator failed: KeyError: 'odd'")


def test_one_that_was_killed_with_the_service_has_failed(world: World, ann: Any, bob: Any) -> None:
    folder = world.data / "reports" / "comparison-3"
    folder.mkdir(parents=True)
    owner = world.store.user("ann").id
    story = {"user": "ann", "owner": owner, "title": "t", "created_at": NOW, "state": "running"}
    (folder / "study.json").write_text(json.dumps(story))
    found = ann.get(f"{STUDIES}/comparison-3").json()
    assert (found["state"], found["problem"]) == ("failed", "the service ended before it was done")
    assert (found["yours"], bob.get(f"{STUDIES}/comparison-3").json()["yours"]) == (True, False)
    assert ann.delete(f"{STUDIES}/comparison-3").status_code == 204


# --- reports that were put there


def put(world: World, name: str, summary: Any = None) -> Path:
    folder = world.data / "reports" / name
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<h1>found</h1>")
    if summary is not None:
        (folder / "report.json").write_text(summary if isinstance(summary, str) else json.dumps(summary))
    return folder


def test_a_report_in_the_folder_is_shown_to_all_and_deleted_by_administrators(
    world: World, root: Any, ann: Any, problem: Any
) -> None:
    table = {"columns": ["measure", "ours"], "rows": [["average", "12 s"]], "best": []}
    put(world, "fixed-3", {"kind": "experiment", "title": "fixed-3", "about": "Three jobs.", **table})
    [found] = ann.get(STUDIES).json()["studies"]
    assert (found["kind"], found["title"], found["user"], found["state"]) == ("experiment", "fixed-3", "", "done")
    assert (found["yours"], root.get(f"{STUDIES}/fixed-3").json()["yours"]) == (False, True)
    assert found["summary"] == table
    assert ann.get(f"{STUDIES}/fixed-3/report").text == "<h1>found</h1>"
    problem(ann.delete(f"{STUDIES}/fixed-3"), 403)
    assert root.delete(f"{STUDIES}/fixed-3").status_code == 204
    assert ann.get(STUDIES).json()["studies"] == []


@pytest.mark.parametrize(
    "summary",
    [
        "",
        "[1]",
        "{",
        "[" * 100_000,
        {"columns": 3},
        {"columns": ["a"], "rows": [["1", "2"]]},
        {"columns": [], "rows": 1},
    ],
)
def test_a_summary_of_another_form_does_no_harm(world: World, ann: Any, summary: Any) -> None:
    put(world, "odd", summary)
    [found] = ann.get(STUDIES).json()["studies"]
    assert (found["title"], found["summary"]) == ("odd", None)


def test_nothing_outside_of_the_folder_is_shown(world: World, ann: Any, nobody: Any) -> None:
    secret = put(world, "../secret")
    reports = world.data / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "link").symlink_to(secret)
    (reports / "inside").mkdir()
    (reports / "inside" / "report.html").symlink_to(secret / "report.html")
    os.mkfifo(reports / "pipe")
    for name in ("..", "../secret", "%2e%2e", "..%2fsecret", "link", "inside", "pipe", ".", "a/b"):
        assert ann.get(f"{STUDIES}/{name}/report").status_code in (404, 405, 422), name
    assert {one["name"] for one in ann.get(STUDIES).json()["studies"]} == {"inside"}
    assert nobody.get(f"{STUDIES}/inside/report").status_code == 401
