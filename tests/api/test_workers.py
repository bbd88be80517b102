"""How many workers a job may have, changed while it waits or runs."""

from typing import Any

import pytest

from schedulearn.core.domain.states import JobState

JOBS = "/api/v1/jobs"


def submitted(ann: Any, **more: Any) -> int:
    return int(ann.post(JOBS, json={"command": "true", **more}).json()["id"])


@pytest.mark.parametrize(
    ("asked", "shown", "kept"),
    [
        (2, 2, (2, 2, 2)),
        ("2..6", "2..6", (2, 2, 6)),
        ({"min": 1, "want": 2, "max": 3}, {"min": 1, "want": 2, "max": 3}, (1, 2, 3)),
    ],
)
def test_a_range_of_a_waiting_job(world: Any, ann: Any, asked: Any, shown: Any, kept: tuple[int, int, int]) -> None:
    job = submitted(ann)
    assert ann.patch(f"{JOBS}/{job}", json={"workers": asked}).json()["spec"]["workers"] == shown
    data = dict(zip(("min", "want", "max"), kept, strict=True))
    assert world.requests() == [("update", job, {"workers": data}, "ann")]


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        (0, "workers.want", "0 is too small"),
        ("6..2", "workers", "is not a range"),
        ("1.5..2", "workers", "is not a number of workers"),
        ({"min": 3, "max": 2}, "workers", "not in order"),
        ({"least": 3}, "workers.least", "no such field"),
        (None, "workers", "is not a range"),
        ("9..10", "workers", "all nodes together have room for 5"),
    ],
)
def test_a_wrong_range_is_named(world: Any, ann: Any, problem: Any, asked: Any, field: str, words: str) -> None:
    job = submitted(ann)
    told = problem(ann.patch(f"{JOBS}/{job}", json={"workers": asked}), 422)
    assert told["field"] == field
    assert words in told["detail"]
    assert world.requests() == []


@pytest.mark.parametrize(
    ("more", "asked", "why"),
    [
        ({"launcher": "elastic"}, 2, None),
        ({"launcher": "elastic", "workers": "1..2"}, "5..7", None),
        ({"preemptible": True}, 2, None),
        ({}, "1..4", None),  # it has one: nothing has to change
        ({}, 2, "it may not be: no checkpoint of it was seen yet"),
        ({"preemptible": False}, 2, "it may not be: preemptible is false"),
    ],
)
def test_a_running_job_is_resized_if_it_may_be(
    world: Any, ann: Any, problem: Any, more: dict[str, Any], asked: Any, why: str | None
) -> None:
    job = submitted(ann, **more)
    world.run(job)
    answer = ann.patch(f"{JOBS}/{job}", json={"workers": asked})
    if why is None:
        assert answer.status_code == 200
        assert len(world.requests()) == 1
    else:
        assert why in problem(answer, 409)["detail"]
        assert world.requests() == []


def test_one_with_a_checkpoint_may_be_stopped(world: Any, ann: Any) -> None:
    job = submitted(ann)
    world.run(job)
    folder = world.data / "jobs" / str(job) / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "model").touch()
    assert ann.patch(f"{JOBS}/{job}", json={"workers": 2}).status_code == 200


def test_what_has_no_room_is_refused_with_what_would_fit(world: Any, ann: Any, problem: Any) -> None:
    others, job = [submitted(ann), submitted(ann)], submitted(ann, launcher="elastic")
    for one in (*others, job):
        world.run(one)
    told = problem(ann.patch(f"{JOBS}/{job}", json={"workers": 5}), 409)["detail"]
    assert told.endswith("there is room for 3 more at present: at least 4 could be asked for now")


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.PAUSED])
def test_one_that_does_not_run_keeps_its_size(world: Any, ann: Any, problem: Any, state: JobState) -> None:
    job = submitted(ann, launcher="elastic")
    world.run(job)
    world.set_state(job, state)
    told = problem(ann.patch(f"{JOBS}/{job}", json={"workers": 2}), 409)["detail"]
    assert told.startswith(f"job {job} has 1 worker, and is {state}")


def test_only_the_owner_may(bob: Any, ann: Any, problem: Any) -> None:
    problem(bob.patch(f"{JOBS}/{submitted(ann)}", json={"workers": 2}), 403)
