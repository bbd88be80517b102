"""What earlier jobs tell of the next."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.estimate.history import Finished, History
from schedulearn.core.estimate.remaining import Estimate


def of(*seconds: float, user: str = "ann", name: str = "mnist", gpus: int = 1) -> list[Finished]:
    return [Finished(user, name, gpus, s) for s in seconds]


def learned(jobs: Iterable[Finished], keep: int = 500, keep_all: int = 10_000) -> History:
    history = History(keep, keep_all)
    for job in jobs:
        history.learn(job)
    return history


FIVE = of(50, 10, 30, 20, 40)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (0, Estimate(10, 30, 50)),
        (10, Estimate(10, 25, 40)),  # 20 30 40 50 are longer
        (29, Estimate(1, 11, 21)),  # 30 40 50
        (35, Estimate(5, 15, 65)),  # 40 50, and 100 for the tail that nobody has seen
        (49, Estimate(1, 26, 51)),  # 50, and 100
        (50, Estimate(50 / 9, 50, 450)),  # it has outrun all: as long again
        (900, Estimate(100, 900, 8100)),
        (-5, Estimate(10, 30, 50)),
    ],
)
def test_given_that_it_ran_so_long(ran: float, expected: Estimate) -> None:
    assert learned(FIVE).remaining("ann", "mnist", 1, ran) == expected


def test_outer_tenths_are_left_out_of_the_range() -> None:
    assert learned(of(*range(1, 21))).duration("ann", "mnist", 1) == Estimate(3, 10.5, 18)


@pytest.mark.parametrize(
    ("user", "name", "gpus", "expected", "source"),
    [
        ("ann", "mnist", 1, 10, "jobs of the same user, name and size"),
        ("ann", "mnist", 4, 20, "jobs of the same user, name and size"),
        ("ann", "mnist", 8, 15, "jobs of the same user and name"),
        ("zoe", "mnist", 1, 20, "jobs of the same name"),
        ("zoe", "mnist", 4, 20, "jobs of the same name"),  # 3 × 10, 3 × 20, 30, 40, 50
        ("ann", "bert", 1, 20, "jobs of the same user"),  # 3 × 10, 3 × 20, 2 × 900
        ("zoe", "gan", 1, 700, "jobs of other names"),  # mnist 20, bert 900, x 700: each name counts once
        ("", "", 1, 40, "all jobs"),
    ],
)
def test_the_most_alike_with_three_jobs_answer(user: str, name: str, gpus: int, expected: float, source: str) -> None:
    history = learned(
        of(10, 10, 10)
        + of(20, 20, 20, gpus=4)
        + of(30, 40, 50, user="bob")
        + of(900, 900, user="ann", name="bert")
        + of(700, 700, 700, 700, user="eve", name="x")
    )
    found = history.duration(user, name, gpus)
    assert found is not None
    assert (found.expected, found.source) == (expected, source)


def test_too_few_jobs_and_impossible_durations() -> None:
    history = learned(of(1, 2, math.nan, -1, math.inf))
    assert len(history) == 2
    assert history.duration("ann", "mnist", 1) is None
    assert History().remaining("ann", "mnist", 1, 0) is None


def test_only_the_last_jobs_of_a_group_are_remembered() -> None:
    history = learned(of(1, 1, 1, 1, 70, 80, 90), keep=3)
    assert history.duration("ann", "mnist", 1) == Estimate(70, 80, 90)


def test_what_is_forgotten_altogether_leaves_no_trace() -> None:
    history = learned(of(1, 1, 1, 1) + of(70, 80, 90, user="bob", name="gan"), keep=3, keep_all=3)
    assert len(history) == 3
    assert history.like("ann", "mnist") == ()
    assert history.duration("ann", "mnist", 1) == Estimate(70, 80, 90), "by all jobs that are left"


def test_one_object_learned_again_and_again_is_many_jobs() -> None:
    history = learned(of(5) * 20, keep=3, keep_all=4)
    assert len(history) == 4
    assert len(history.like("ann", "mnist")) == 3


def test_like_are_those_of_the_same_name() -> None:
    history = learned(of(1, 2, 3) + of(4, user="bob"))
    assert [job.seconds for job in history.like("ann", "mnist")] == [1, 2, 3]
    assert [job.seconds for job in history.like("bob", "mnist")] == [1, 2, 3, 4]
    assert history.like("ann", "gan") == ()


def with_numbers(seconds: float, **numbers: float) -> Finished:
    return Finished("ann", "mnist", 1, seconds, numbers)


def test_twice_the_epochs_twice_the_time_and_a_seed_means_nothing() -> None:
    jobs = [
        with_numbers(10.0 * e, epochs=e, seed=s) for e, s in zip((1, 2, 3, 4, 5, 6), (7, 3, 9, 1, 4, 8), strict=True)
    ]
    history = learned(jobs)
    found = history.remaining("ann", "mnist", 1, 0, {"epochs": 12, "seed": 5})
    assert found is not None
    assert [found.low, found.expected, found.high] == pytest.approx([120, 120, 120])
    assert found.source == "jobs of the same name, adjusted to its numbers"
    later = history.remaining("ann", "mnist", 1, 100, {"epochs": 12, "seed": 5})
    assert later is not None
    assert later.expected == pytest.approx(20)
    other = history.duration("ann", "mnist", 1, {"seed": 5})
    assert other == history.duration("ann", "mnist", 1), "a seed alone changes nothing"
    far = history.duration("ann", "mnist", 1, {"epochs": 1e9, "seed": 5})
    assert far is not None
    assert far.expected == pytest.approx(240), "no further than 4 × the largest seen"


def test_a_job_that_took_no_time_tells_nothing_of_numbers() -> None:
    history = learned([with_numbers(10.0 * e, epochs=e) for e in (1, 2, 3, 4, 5)])
    history.learn(with_numbers(0.0))
    found = history.duration("ann", "mnist", 1, {"epochs": 10})
    assert found is not None
    assert found.expected == pytest.approx(100)


def test_the_size_is_a_feature_too() -> None:
    jobs = [Finished("ann", "mnist", n, 80.0 / n, {"lr": 0.1}) for n in (1, 1, 2, 2, 4, 4)]
    found = learned(jobs).duration("ann", "mnist", 8, {"lr": 0.1})
    assert found is not None
    assert found.expected == pytest.approx(10)


def test_what_was_learned_later_counts_for_features() -> None:
    history = learned([with_numbers(10.0 * e, epochs=e) for e in (1, 2, 3, 4, 5)])
    assert history.duration("ann", "mnist", 1, {"epochs": 10}).expected == pytest.approx(100)  # type: ignore[union-attr]
    for e in range(1, 101):
        history.learn(with_numbers(20.0 * e, epochs=e))
    assert history.duration("ann", "mnist", 1, {"epochs": 10}).expected == pytest.approx(200)  # type: ignore[union-attr]


numbers = st.dictionaries(
    st.sampled_from(["lr", "epochs"]), st.floats(-1, 1e6) | st.sampled_from([5e-324, 1e-3, 1.0001e-3, 7.0, 1e308])
)
finished = st.builds(
    Finished,
    st.sampled_from(["", "ann", "bob"]),
    st.sampled_from(["", "mnist", "gan"]),
    st.sampled_from([1, 4]),
    st.floats(0, 1e9),
    numbers,
)
questions = st.tuples(
    st.sampled_from(["", "ann", "zoe"]),
    st.sampled_from(["", "mnist", "bert"]),
    st.sampled_from([1, 8]),
    st.floats(0, 1e10),
    st.none() | numbers,
)


@settings(deadline=None)
@given(st.lists(finished, max_size=40), questions)
def test_finite_ordered_never_negative(jobs: list[Finished], question: tuple[str, str, int, float, None]) -> None:
    found = learned(jobs).remaining(*question)
    assert (found is None) == (len(jobs) < 3)
    if found is not None:
        assert 0 <= found.low <= found.expected <= found.high < math.inf


@settings(deadline=None)
@given(st.lists(finished, min_size=3, max_size=40), st.integers(3, 6), st.integers(3, 12))
def test_memory_is_bounded_and_the_latest_count(jobs: list[Finished], keep: int, keep_all: int) -> None:
    history = learned(jobs, keep, keep_all)
    latest = sorted(job.seconds for job in jobs[-min(keep, keep_all) :])
    found = history.duration("nobody", "unheard", 1)
    assert found is not None
    assert latest[0] <= found.low
    assert found.high <= latest[-1] or latest[-1] == 0 or sum(s > 0 for s in latest) < 3
    assert len(history) == min(len(jobs), keep_all)
