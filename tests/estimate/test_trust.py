"""Sources of estimates are believed as long as they do no worse than what is known without them."""

import pytest

from schedulearn.core.estimate.trust import SourceErrors, Trust


def scored(*told: float, without: float | None = 200.0) -> Trust:
    """Jobs that took 100 s, of which a source had told this."""
    trust = Trust()
    for job, seconds in enumerate(told):
        trust.note(job, "steps", seconds, without)
        trust.ended(job, 100.0)
    return trust


@pytest.mark.parametrize(
    ("told", "believed"),
    [
        ([100.0] * 9, True),
        ([250.0] * 9, False),
        ([40.0] * 9, False),  # less than half is as bad as more than twice
        ([250.0] * 4, True),  # too few to tell
        ([250.0] * 4 + [110.0] * 5, True),
    ],
)
def test_it_must_be_better_than_what_is_known_without_it(told: list[float], believed: bool) -> None:
    assert scored(*told).believes("steps") is believed


def test_where_nothing_else_is_known_it_is_not_scored() -> None:
    assert scored(*[1000.0] * 9, without=None).errors == {}


def test_a_source_that_gets_better_is_believed_again() -> None:
    trust = scored(*[250.0] * 100)
    assert not trust.believes("steps")
    for job in range(1000, 1060):
        trust.note(job, "steps", 100.0, 200.0)
        trust.ended(job, 100.0)
    assert trust.believes("steps")


def test_only_the_first_word_counts_and_only_once() -> None:
    trust = Trust()
    trust.note(1, "steps", 110.0, 200.0)
    assert trust.is_noted(1, "steps")
    trust.ended(1, 100.0)
    trust.ended(1, 100.0)
    assert trust.errors == {"steps": SourceErrors(1, pytest.approx(0.1), pytest.approx(1.0), believed=True)}
    assert not trust.is_noted(1, "steps")


def test_it_is_measured_against_what_would_be_asked_in_its_place() -> None:
    trust = Trust()
    for job in range(9):
        trust.note(job, "steps", 150.0, 110.0, "jobs of the same name")
        trust.note(100 + job, "steps", 150.0, 1000.0, "all jobs")
        trust.ended(job, 100.0)
        trust.ended(100 + job, 100.0)
    assert not trust.believes("steps", "jobs of the same name")
    assert trust.believes("steps", "all jobs"), "strangers tell even less"
    assert trust.believes("steps", "jobs of the same user"), "of which nothing is known yet"
    assert trust.errors["steps"].count == 18
