"""The verb `migrate`, and what is shown of moves."""

from typing import Any

import pytest


def happened(kind: str, cause: str, state: str | None = None, serial: int = 9) -> dict[str, Any]:
    return {"serial": serial, "at": "2026-03-01T10:00:00Z", "kind": kind, "cause": cause, "job": 17, "attempt": 2,
            "node": None, "state": state, "data": {}}  # fmt: skip


@pytest.fixture
def jobs(service, new_job):
    service.jobs = {17: new_job(17, "running")}
    return service


def test_it_is_asked_for(cli, jobs):
    result = cli("migrate", 17, "gpu2")
    assert result.code == 0
    (request,) = jobs.asked("POST", "/jobs/17/migrate")
    assert request.body == {"node": "gpu2"}
    assert "Job 17 (mnist-17) will move to gpu2." in result.out
    assert "schedulearn describe 17" in result.out
    assert cli("migrate", 17, "gpu2", "--json").json["id"] == 17


def test_it_may_be_waited_for(cli, jobs):
    jobs.news = [
        happened("migrated", "of an earlier move", serial=2),
        happened("stop", "moves to gpu2, as ann asked", "stopping", 8),
        happened("migrated", "moved from local to gpu2; 4.5 s lost"),
    ]
    result = cli("migrate", 17, "gpu2", "--wait")
    assert result.code == 0
    assert "Job 17 (mnist-17) moved from local to gpu2; 4.5 s lost." in result.out
    assert cli("migrate", 17, "gpu2", "--wait", "--json").json["id"] == 17


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (happened("not_migrated", "not moved to gpu2: node gpu2 was lost"), "not moved to gpu2: node gpu2 was lost"),
        (happened("cancel", "cancelled by ann", "cancelled"), "not moved to gpu2: cancelled by ann"),
        (happened("succeed", "finished", "succeeded"), "not moved to gpu2: finished"),
        (happened("pause", "paused by ann", "paused"), "not moved to gpu2: paused by ann"),
    ],
)
def test_what_came_between_is_told(cli, jobs, event, words):
    jobs.news = [event]
    result = cli("migrate", 17, "gpu2", "--wait", "--json")
    assert (result.code, result.out) == (1, "")
    assert words in result.err


def test_one_that_is_deleted_meanwhile_is_not_waited_for(cli, jobs):
    jobs.refuse["GET /jobs/17"] = (404, {"title": "Not found", "detail": "there is no job 17"})
    assert cli("migrate", 17, "gpu2", "--wait").code == 3


def test_a_refusal_names_the_field(cli, jobs):
    problem = {"title": "Wrong", "detail": "node: there is no node 'gpu3'", "field": "node", "allowed": "gpu2"}
    jobs.refuse["POST /jobs/17/migrate"] = (422, problem)
    result = cli("migrate", 17, "gpu3")
    assert result.code == 2
    assert "there is no node 'gpu3'" in result.err
    assert "allowed: gpu2" in result.err
    assert cli("migrate", 99, "gpu2").code == 3


def test_without_a_node_the_possible_ones_are_listed(cli, jobs):
    jobs.moves = [{"node": "gpu2", "problem": None}, {"node": "gpu3", "problem": "gpu3 is lost"}]
    shown = cli("migrate", 17)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [line.split(maxsplit=1) for line in lines[1:3]] == [["gpu2", "yes"], ["gpu3", "gpu3 is lost"]]
    assert "schedulearn migrate 17 gpu2" in shown.out
    assert cli("migrate", 17, "--json").json == jobs.moves
    assert cli("migrate", 17, "--wait").code == 2, "nothing would be waited for"
    assert jobs.asked("POST", "/jobs/17/migrate") == []
    jobs.moves = []
    assert "no other node" in cli("migrate", 17).out


def test_describe_shows_moves_and_what_they_cost(cli, jobs):
    jobs.jobs[17] |= {"migrations": 2, "migration_seconds": 9.1, "moving_to": ["gpu2"]}
    shown = cli("describe", 17).out
    assert "moved 2×, 9.1 s lost by moving" in shown
    assert "moving to" in shown
    listed = next(job for job in cli("ls", "--json").json if job["id"] == 17)
    assert (listed["migrations"], listed["migration_seconds"], listed["moving_to"]) == (2, 9.1, ["gpu2"])
