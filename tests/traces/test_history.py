"""Schedulearn's own history."""

import json

import pytest

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.lab.traces.registry import load
from schedulearn.lab.traces.types import TraceJob

FULL = {
    "id": 17,
    "submitted_at": "1970-01-01T00:01:00Z",
    "run_seconds": 5400,
    "gpus": 2,
    "workers": {"min": 1, "want": 2, "max": 4},
    "user": "ada",
    "name": "mnist",
    "deadline": "1970-01-01T02:00:00+00:00",
    "state": "succeeded",
}
SHORT = {"id": 18, "submitted_at": 99.5, "run_seconds": 0}


def lines(*records):
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def test_a_line_is_a_job(write):
    workload = load(write(lines(FULL, SHORT), "history.jsonl"), strict=True)
    assert list(workload.jobs) == [
        TraceJob("17", 60.0, 5400.0, 4, user="ada", name="mnist", deadline=7200.0, workers=(2, 8)),
        TraceJob("18", 99.5, 0.0, 1, workers=(1, 1)),
    ]


@pytest.mark.parametrize(
    ("changes", "gpus", "workers"),
    [
        ({"gpus": 0, "workers": 3}, 3, (3, 3)),
        ({"gpus": None, "workers": {"min": 2, "max": 5}}, 2, (2, 5)),
        ({"gpus": 1, "workers": {"want": 3}}, 3, (1, 3)),
        ({"gpus": 4, "workers": None}, 4, (4, 4)),
        ({"gpus": 1, "workers": {"min": 2, "want": None, "max": None}}, 2, (2, 2)),
    ],
)
def test_slots_are_the_gpus_of_all_workers(write, changes, gpus, workers):
    (job,) = load(write(lines(FULL | changes)), strict=True).jobs
    assert (job.gpus, job.workers) == (gpus, workers)


def test_what_a_job_does_to_its_gpus_and_its_network(write):
    told, silent = load(
        write(lines(FULL | {"model_mb": 440, "step_seconds": 0.3, "gpu_use": 1}, FULL)), strict=True
    ).jobs
    assert (told.model_bytes, told.step_seconds, told.gpu_use) == (440e6, 0.3, 1.0)
    assert (silent.model_bytes, silent.step_seconds, silent.gpu_use) == (None, None, None)


def test_a_job_that_shares_a_machine(write):
    record = SHORT | {"cpus": 0.5, "curve": [[0.1, 2.0], [1, 1]], "goal": "max"}
    (job,) = load(write(lines(record)), strict=True).jobs
    assert (job.gpus, job.cpus, job.workers) == (0, 0.5, None)
    assert job.learning is not None
    assert (job.learning.points(), job.learning.goal) == ([(0.1, 2.0), (1.0, 1.0)], "max")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ("{", "is not JSON"),
        ("{} trailing", "is not JSON"),
        ('{"a":' + "[" * 100_000, "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "id is missing"),
        (FULL | {"id": True}, "id is not a number or a word: True"),
        (FULL | {"id": [1]}, "id is not a number or a word"),
        (FULL | {"submitted_at": None}, "submitted_at is missing"),
        (FULL | {"submitted_at": "noon"}, "submitted_at is not a date and time: 'noon'"),
        (FULL | {"submitted_at": False}, "submitted_at is not a number"),
        (FULL | {"run_seconds": -1}, "run_seconds must not be negative"),
        (FULL | {"run_seconds": float("nan")}, "run_seconds must be finite"),
        (FULL | {"run_seconds": 10**400}, "run_seconds must be finite"),
        (FULL | {"run_seconds": "60"}, "run_seconds is not a number: '60'"),
        (FULL | {"gpus": -1}, "gpus must be 1 to 100000"),
        (FULL | {"cpus": 1}, "cpus is for jobs without GPUs and with one worker"),
        (SHORT | {"cpus": 0}, "cpus must be above 0"),
        (SHORT | {"cpus": "1"}, "cpus is not a number"),
        (SHORT | {"model_mb": "large"}, "model_mb is not a number"),
        (SHORT | {"step_seconds": 0}, "step_seconds must be above 0"),
        (SHORT | {"gpu_use": 1.5}, "gpu_use is a part of a GPU, not 1.5"),
        (SHORT | {"curve": 3}, "curve is not a list of points"),
        (SHORT | {"curve": [[0.5, 1], [0.5, 2]]}, "curve is not a list of points"),
        (SHORT | {"curve": [[0.5, "nan"]]}, "curve is not a list of points"),
        (SHORT | {"curve": []}, "curve is not a list of points"),
        (SHORT | {"curve": [[0.5, 1]], "goal": "up"}, "goal must be min or max"),
        (FULL | {"gpus": 0.5}, "gpus must be a whole number"),
        (FULL | {"gpus": False}, "gpus is not a number"),
        (FULL | {"workers": 0}, "workers must be 1 to 100000"),
        (FULL | {"workers": {"min": 3, "want": 2}}, "workers must be min ≤ want ≤ max, not 3, 2, 2"),
        (FULL | {"workers": {"min": "1"}}, "workers.min is not a number: '1'"),
        (FULL | {"workers": [1, 2]}, "workers is not a number"),
        (FULL | {"deadline": float("inf")}, "deadline must be finite"),
        (FULL | {"user": 5}, "user is not a text: 5"),
    ],
)
def test_bad_lines(write, record, text):
    path = write(lines(SHORT, "", record, SHORT))
    workload = load(path)
    assert len(workload.jobs) == 2
    (problem,) = workload.problems
    assert problem.line == 3
    assert text in problem.text
    with pytest.raises(InvalidSpec, match="line 3: "):
        load(path, strict=True)


def test_a_history_whose_first_line_is_broken_is_read_when_its_format_is_given(write):
    path = write(lines("oops", SHORT))
    with pytest.raises(InvalidSpec, match="cannot tell the format"):
        load(path)
    assert [problem.line for problem in load(path, format="schedulearn").problems] == [1]
