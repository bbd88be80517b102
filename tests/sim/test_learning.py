"""Simulated jobs that learn: what they report as they get on, and what can be told from it."""

import math
from dataclasses import replace
from statistics import pstdev

import pytest

from schedulearn.core.domain.job import Accrual
from schedulearn.core.domain.learning import LearningCurve
from schedulearn.lab.sim.figures import estimates_in_words
from schedulearn.lab.sim.learned import LearnedFacts
from schedulearn.lab.sim.metrics import Result
from schedulearn.lab.sim.model import JobModel, SpecMaker, make_job
from schedulearn.lab.sim.run import Request, prepare
from schedulearn.lab.traces.types import TraceJob

FLAT = 0.8  # the part of its work from which on it is flat
CURVE = LearningCurve([(k / 100, 1 + 4 * math.exp(-math.log(50) * k / 100 / FLAT)) for k in range(1, 101)])
TRACE = TraceJob("a", 0.0, 1000.0, 1, "ann", "mnist", learning=CURVE)


def model_of(trace: TraceJob = TRACE) -> JobModel:
    return JobModel(make_job(1, trace, SpecMaker(elastic=False).spec(trace)), trace)


def facts_of(model: JobModel, *earlier: float) -> LearnedFacts:
    """What is known of this job after jobs like it that ran for so many seconds."""
    facts = LearnedFacts()
    facts.begin({model.job.id: model})
    for seconds in earlier:
        facts.ended(finished(seconds), seconds)
    return facts


def finished(seconds: float) -> JobModel:
    """One like it that took so long."""
    ended = model_of(replace(TRACE, duration=seconds))
    ended.job.worked = Accrual(seconds)
    return ended


def starts(model: JobModel) -> None:
    """It runs alone, at the size that it wants."""
    model.run(0.0, rate=1.0)
    model.job.worked = Accrual(0.0, 0.0, 1.0)


def run(trace: str, policy: str = "srtf", **more: bool) -> Result:
    study = prepare(Request(cluster="4x4", policies=[policy], trace=trace, **more))  # type: ignore[arg-type]
    return study.run(study.choices[0])


# --- what a job reports


def test_the_loss_follows_the_work_that_is_done_whatever_the_speed() -> None:
    model = model_of()
    assert model.metric(0.0) == CURVE.value(0.0)
    model.run(0.0, rate=2.0)
    assert model.metric(100.0) == pytest.approx(CURVE.value(0.2))
    model.run(100.0, rate=0.5)
    assert model.metric(300.0) == pytest.approx(CURVE.value(0.3))
    model.stop(300.0, checkpoint_every=200.0)
    assert (model.progress(900.0), model.metric(900.0)) == (pytest.approx(0.2), pytest.approx(CURVE.value(0.2)))


def test_a_job_without_a_curve_reports_nothing() -> None:
    assert model_of(replace(TRACE, learning=None)).metric(5.0) is None


def test_a_job_that_ends_at_once_is_done() -> None:
    assert model_of(replace(TRACE, duration=0.0)).metric(0.0) == CURVE.value(1.0)


# --- what is guessed from it


def test_steps_tell_what_is_left_as_of_the_last_report() -> None:
    model = model_of(replace(TRACE, announced=1.0))
    facts = facts_of(model)
    starts(model)
    assert facts.estimate(model.job, 5.0) is None, "it has reported nothing yet"
    for now in (10.0, 14.0, 405.0, 999.0):
        estimate = facts.estimate(model.job, now)
        assert estimate
        assert estimate.expected == pytest.approx(1000 - now), "what it did since then is counted"
        assert estimate.low < estimate.expected < estimate.high


@pytest.mark.parametrize(("announced", "left"), [(0.5, 100.0), (2.0, 1600.0), (0.2, 0.0)])
def test_who_announces_other_steps_than_it_does_is_believed(announced: float, left: float) -> None:
    model = model_of(replace(TRACE, announced=announced))
    starts(model)
    estimate = facts_of(model).estimate(model.job, 400.0)
    assert estimate
    assert estimate.expected == pytest.approx(left)


def test_steps_that_take_unequal_times_blur_the_estimate_the_less_the_more_there_were() -> None:
    off: dict[float, list[float]] = {50.0: [], 800.0: []}
    for seed in range(200):
        model = model_of(replace(TRACE, announced=1.0))
        starts(model)
        facts = LearnedFacts(0.1, seed)
        facts.begin({model.job.id: model})
        for now, errors in off.items():
            estimate = facts.estimate(model.job, now)
            assert estimate == facts.estimate(model.job, now), "asked again, it says the same"
            assert estimate
            errors.append(estimate.expected / (1000 - now) - 1)
    assert [pstdev(errors) for errors in off.values()] == pytest.approx([0.1 / 5**0.5, 0.1 / 80**0.5], rel=0.2)


def test_the_time_left_is_told_by_when_the_loss_flattens() -> None:
    model = model_of()
    facts = facts_of(model)
    assert facts.remaining(model.job, 0.0) == math.inf, "nothing is known of it"
    starts(model)
    model.job.attempt = 1
    assert facts.remaining(model.job, 50.0) == math.inf, "a few values tell nothing"
    model.job.attempt = 2
    assert facts.remaining(model.job, 400.0) == pytest.approx(1000 * FLAT - 400, rel=0.05)


def test_it_goes_before_what_other_jobs_took_until_it_is_flat() -> None:
    model = model_of()
    facts = facts_of(model, 2000.0, 2000.0, 2000.0)
    starts(model)
    seen = {}
    for attempt, now in enumerate((50.0, 400.0, 900.0), 1):
        model.job.attempt = attempt
        seen[now] = facts.remaining(model.job, now)
    assert seen == {50.0: 1950.0, 400.0: pytest.approx(400.0, rel=0.05), 900.0: 1100.0}


def test_who_announces_what_is_far_off_is_not_believed_for_ever() -> None:
    wrong = replace(TRACE, announced=10.0)
    models = {}
    for number in range(1, 8):
        job = make_job(number, wrong, SpecMaker(elastic=False).spec(wrong))
        models[job.id] = JobModel(job, wrong)
    facts, told = LearnedFacts(), []
    facts.begin(models)
    for _ in range(3):
        facts.ended(finished(1000.0), 1000.0)
    for model in models.values():
        starts(model)
        estimate = facts.estimate(model.job, 500.0)
        assert estimate
        told.append(estimate.expected)
        facts.ended(model, 1000.0)
    assert told == [pytest.approx(9500.0)] * 5 + [pytest.approx(500.0)] * 2


def test_the_report_says_how_far_off_curves_were() -> None:
    result = run("synthetic:philly?jobs=300&load=2&curves=true")
    known = result.estimates
    by_curve = known["sources"]["loss curve"]
    assert 0 < by_curve["count"] <= 300
    assert 0 < by_curve["error"] < 2
    assert f"by loss curve: half of the last {by_curve['count']} off by more than" in estimates_in_words(known)


# --- where it must not matter


@pytest.mark.parametrize("policy", ["srtf", "srsf", "afs-l", "tiresias"])
def test_true_durations_do_not_care_for_curves(policy: str) -> None:
    made = "synthetic:philly?jobs=200&load=2&elastic=true"
    with_curves, without = (run(made + more, policy, oracle=True) for more in ("&curves=true", ""))
    assert list(with_curves.jobs) == list(without.jobs)


def test_jobs_without_curves_are_guessed_as_ever() -> None:
    assert "sources" not in run("synthetic:philly?jobs=300&load=2").estimates
