"""Why a job waits, in words."""

from schedulearn.core.control.explain import Explanation, explain
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.states import JobState
from schedulearn.core.estimate.remaining import Estimate
from support.builders import BROKEN, World, job, node


def why(w: World, number: int, remaining: float | None = None) -> Explanation:
    estimate = None if remaining is None else Estimate(remaining / 2, remaining, remaining * 2)
    return explain(w.state, w.policy, w.job(number), w.now, lambda _: estimate)


def test_what_it_needs_what_is_free_and_when() -> None:
    w = World(node("a", gpus=4), node("b", gpus=2))
    w.submit(job(1, gpus=2), job(2, gpus=4))
    found = why(w, 2, remaining=2400)
    assert found.text == (
        "It needs 4 GPUs and 1 core on one node; the most free on one node is 2 GPUs. "
        "It is first in the queue; it probably starts in about 40 min."
    )
    assert (found.position, found.stage) == (1, "place")
    assert found.estimate == Estimate(600, 2400, 4200)


def test_nothing_known_says_so() -> None:
    w = World(node("a", cpus=1))
    w.submit(job(1), job(2), job(3))
    assert why(w, 3).text == (
        "Job 2, which asks for the same and goes first, waits too: needs 1 core on one node; "
        "the most free on one node is 0 cores. It is number 2 in the queue; "
        "too little is known yet to say when it starts."
    )


def test_one_core_is_one_core() -> None:
    w = World(node("a", cpus=2))
    w.submit(job(1), job(2, cpus=2))
    assert "It needs 2 cores on one node; the most free on one node is 1 core." in why(w, 2).text


def test_estimates_look_at_those_ahead() -> None:
    w = World(node("a", cpus=1))
    w.submit(*(job(i) for i in range(1, 5)))
    assert [why(w, n, remaining=100).estimate.expected for n in (2, 3, 4)] == [100, 200, 300]  # type: ignore[union-attr]


def test_dependencies_back_off_drain_and_holding() -> None:
    w = World(node("a", cpus=1))
    w.submit(job(1, max_restarts=2, name="first"), job(2, depends_on=(JobId(1),)))
    assert why(w, 2).text == "It waits for job 1 (first, starting) to finish."
    w.exited(1, BROKEN)
    assert why(w, 1).text == "It is tried again in 5 s after its last attempt ended with: exit code 1 (restart 1 of 2)."
    w.now = 10.0
    w.cycle()
    w.cycle(ev.Submitted(w.now, job(3)), ev.DrainAsked(w.now, NodeName("a"), "ann", True))
    assert "no node takes jobs at present" in why(w, 3).text
    w.cycle(ev.PauseAsked(w.now, JobId(3), "ann"))
    assert why(w, 3).text == "It is held: paused by ann. Resume it to go on."


def test_held_behind_a_job_that_starves() -> None:
    w = World(node("a", gpus=4), params={"starvation_guard": 10})
    w.submit(job(1, gpus=3), job(2, gpus=4))
    w.now = 11.0
    w.submit(job(3, gpus=1))
    found = why(w, 3)
    assert found.text.startswith("It would fit, but job 2 goes first and has waited long.")
    assert found.stage == "allocate"


def test_every_state_has_a_sentence() -> None:
    w = World(node("a"))
    w.submit(job(1))
    assert why(w, 1).text == "Its workers are being started."
    w.started(1)
    w.now = 75.0
    assert why(w, 1).text == "It has run for 1 min 15 s."
    w.cycle(ev.CancelAsked(w.now, JobId(1), "ann"))
    assert why(w, 1).text == "It is being stopped: cancelled by ann."
    over = w.job(1)
    for state, text in (
        (JobState.SUCCEEDED, "It ran for 1 min 15 s."),
        (JobState.FAILED, "The cause: cancelled by ann."),
        (JobState.CANCELLED, "The cause: cancelled by ann."),
    ):
        over.state = state
        assert explain(w.state, w.policy, over, w.now, lambda _: None).text == text


def test_a_job_that_needs_a_container_is_told_so() -> None:
    w = World(node("a"))
    w.submit(job(1, image="torch"))
    assert "1 core on one node that runs containers; no node that runs it takes jobs" in why(w, 1).text
