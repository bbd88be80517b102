"""From what the API wrote down to events of the control loop."""

import pytest

from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.order.fifo import Fifo
from schedulearn.service.common.config import DataFolder
from schedulearn.service.loop.requests import to_event
from schedulearn.store import Request, Store
from support.builders import BROKEN, job
from support.clock import HandClock
from support.facts import AssumedFacts
from support.scheduling import Bench

NOW = 50.0
ONE = JobId(1)


def request(kind: str, job: JobId | None = ONE, **data: object) -> Request:
    return Request(7, kind, job, data, "ann", 49.0)


@pytest.mark.parametrize(
    ("asked", "event"),
    [
        (request("cancel"), ev.CancelAsked(NOW, ONE, "ann")),
        (request("delete"), ev.DeleteAsked(NOW, ONE, "ann")),
        (request("pause"), ev.PauseAsked(NOW, ONE, "ann")),
        (request("resume"), ev.ResumeAsked(NOW, ONE, "ann")),
        (request("update", priority=80), ev.UpdateAsked(NOW, ONE, "ann", {"priority": 80})),
        (request("drain", None, node="a", drain=True), ev.DrainAsked(NOW, NodeName("a"), "ann", True)),
        (request("drain", None, node="a", drain=False), ev.DrainAsked(NOW, NodeName("a"), "ann", False)),
        (request("of a newer version"), None),
        (request("submit"), None),  # the job is gone
    ],
)
def test_each_request_becomes_an_event(store: Store, asked: Request, event: ev.Event | None) -> None:
    assert to_event(asked, store, State(Fifo(), AssumedFacts()), NOW) == event


def test_a_submission_brings_the_job_and_what_became_of_those_it_depends_on(
    store: Store, folder: DataFolder, clock: HandClock
) -> None:
    bench = Bench(store, folder, clock)
    failed, waiting = bench.submit(), bench.submit(cpus=2)
    bench.cycle()
    bench.exited("1.1.0", BROKEN)
    bench.scheduler.cycle()
    third = bench.submit(depends_on=(failed, waiting, JobId(99)))
    event = to_event(request("submit", third), store, State(Fifo(), AssumedFacts()), NOW)
    assert isinstance(event, ev.Submitted)
    assert event.job.id == third
    assert event.ended == {failed: JobState.FAILED}, "only what is over; the state knows the others"


def test_a_submission_that_the_scheduler_has_already_is_not_made_twice(
    store: Store, folder: DataFolder, clock: HandClock
) -> None:
    bench = Bench(store, folder, clock)
    number = bench.submit()
    state = State(Fifo(), AssumedFacts())
    state.jobs[number] = job(number)
    assert to_event(request("submit", number), store, state, NOW) is None
