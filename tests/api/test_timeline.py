"""Who ran where and when."""

from typing import Any

import pytest

from schedulearn.api.body.spec import iso
from schedulearn.core.domain.ids import DeviceId, JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.states import StopReason

AT = 1_800_000_000.0  # the clock of the service
URL = "/api/v1/timeline"


def ran(world: Any, job: int, attempt: int, start: float, end: float | None, **more: Any) -> None:
    """An attempt of one worker, at seconds from AT on."""
    id = WorkerId(JobId(job), attempt, 0)
    ended = None if end is None else AT + end
    worker = Worker(id, NodeName("local"), (DeviceId("GPU-0"),), AT + start, ended, more.pop("outcome", None))
    world.save(attempts=[Attempt(id.of, AT + start, [worker], ended_at=ended, **more)])


def seen(answer: Any) -> list[str]:
    return [span["worker"] for span in answer.json()["spans"]]


def test_what_runs_and_what_has_run(world: Any, ann: Any, job: int) -> None:
    ran(world, job, 1, -600, -300, stop=StopReason.PREEMPT)
    ran(world, job, 2, -200, None)
    answer = ann.get(URL).json()
    assert (answer["at"], answer["until"]) == ("2027-01-15T08:00:00.000000Z", "2027-01-15T08:00:00.000000Z")
    assert answer["since"] == "2027-01-15T07:00:00.000000Z"
    assert (answer["total"], answer["first_at"]) == (2, ann.get(f"/api/v1/jobs/{job}").json()["submitted_at"])
    runs, before = answer["spans"]
    assert (runs["worker"], runs["ended_at"], runs["stop"], runs["exit"]) == (f"{job}.2.0", None, None, None)
    about = ann.get(f"/api/v1/jobs/{job}").json()
    assert before == {
        "worker": f"{job}.1.0", "job": job, "name": about["name"], "user": about["user"], "node": "local",
        "devices": ["GPU-0"], "started_at": "2027-01-15T07:50:00.000000Z", "ended_at": "2027-01-15T07:55:00.000000Z",
        "stop": "preempt", "exit": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("since", "until", "attempts"),
    [
        (-1000, -700, []), (-1000, -600, []), (-1000, -599, [1]), (-400, -350, [1]), (-299, -250, []), (-250, 0, [2]),
        (-1000, 0, [2, 1]), (-100, -50, [2]),
    ],
)  # fmt: skip
def test_whoever_ran_at_some_time_between(
    world: Any, ann: Any, job: int, since: float, until: float, attempts: list[int]
) -> None:
    ran(world, job, 1, -600, -300)
    ran(world, job, 2, -200, None)
    answer = ann.get(URL, params={"since": iso(AT + since), "until": iso(AT + until)})
    assert seen(answer) == [f"{job}.{number}.0" for number in attempts]


def test_a_lost_worker_ended_with_its_attempt(world: Any, ann: Any, job: int) -> None:
    id = WorkerId(JobId(job), 1, 0)
    world.save(attempts=[Attempt(id.of, AT - 90, [Worker(id, NodeName("gone"), (), AT - 90)], ended_at=AT - 30)])
    (span,) = ann.get(URL).json()["spans"]
    assert (span["node"], span["ended_at"]) == ("gone", "2027-01-15T07:59:30.000000Z")


def test_how_it_ended(world: Any, ann: Any, job: int) -> None:
    ran(world, job, 1, -60, -30, outcome=Outcome(Ending.EXITED, 3))
    (span,) = ann.get(URL).json()["spans"]
    assert (span["exit"]["code"], span["exit"]["text"]) == (3, "exit code 3")


def test_of_too_many_the_newest(world: Any, ann: Any, job: int) -> None:
    for number in range(1, 6):
        ran(world, job, number, -100 + number, -90 + number)
    answer = ann.get(URL, params={"limit": 2})
    assert seen(answer) == [f"{job}.5.0", f"{job}.4.0"]
    assert answer.json()["total"] == 5


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"since": "2030-01-01T00:00:00Z", "until": "2029-01-01T00:00:00Z"}, "since"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "since"),
        ({"since": "9999-12-31T23:59:59-14:00"}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "10001"}, "limit"),
    ],
)
def test_what_makes_no_sense_is_refused(ann: Any, params: dict[str, str], field: str) -> None:
    answer = ann.get(URL, params=params)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_nothing_yet(ann: Any, nobody: Any) -> None:
    answer = ann.get(URL).json()
    assert (answer["spans"], answer["total"], answer["first_at"]) == ([], 0, None)
    assert nobody.get(URL).status_code == 401
