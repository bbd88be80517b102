"""Speed-ups from the step times of jobs, and from those of jobs like them."""

import pytest

from schedulearn.core.domain.speedup import SpeedUp
from schedulearn.core.estimate.scaling import LEAST_WINDOWS, StepTime, StepTimes, Stretches, program_of


def known(*rows: tuple[int, str, str, int, float]) -> StepTimes:
    return StepTimes(StepTime(*row) for row in rows)


def values(speedup: SpeedUp | None) -> list[float] | None:
    return None if speedup is None else [pytest.approx(value, abs=0.01) for value in speedup.values[1:]]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], None),
        ([(9, "ann", "net", 2, 1.0)], None),  # one size says nothing
        ([(9, "ann", "net", 1, 1.0), (9, "ann", "net", 2, 0.5)], (1.0, 2.0)),
        ([(9, "ann", "net", 1, 1.0), (9, "ann", "net", 2, 1.0)], (1.0, 1.0)),
        ([(9, "ann", "net", 1, 1.0), (9, "ann", "net", 2, 2.0)], (1.0, 0.5)),  # slower with two
        ([(9, "ann", "net", 1, 1.0), (9, "ann", "net", 2, 0.1)], (1.0, 2.0)),  # s never exceeds n
        # Of an earlier job of the same user and name.
        ([(1, "ann", "net", 1, 4.0), (1, "ann", "net", 2, 2.5)], (1.0, 1.6)),
        # Its own come first, in part: it was measured at one size only, the curve is that of the other.
        ([(1, "ann", "net", 1, 4.0), (1, "ann", "net", 2, 2.5), (9, "ann", "net", 1, 0.1)], (1.0, 1.6)),
        ([(1, "ann", "net", 1, 4.0), (1, "ann", "net", 2, 2.5), *((9, "ann", "net", n, 1.0) for n in (1, 2))], (1, 1)),
        # Somebody else's job of that name, unless there is one of the same user.
        ([(1, "bob", "net", 1, 1.0), (1, "bob", "net", 2, 1.0)], (1.0, 1.0)),
        ([*((1, "bob", "net", n, 1.0) for n in (1, 2)), (2, "ann", "net", 1, 2.0), (2, "ann", "net", 2, 1.0)], (1, 2)),
        ([(1, "ann", "other", 1, 1.0), (1, "ann", "other", 2, 1.0)], None),
        # Step times of different jobs are not mixed.
        ([(1, "ann", "net", 1, 1.0), (2, "ann", "net", 2, 10.0)], None),
        # The median of several.
        ([(j, "ann", "net", n, t ** (n - 1)) for j, t in ((1, 1.0), (2, 0.625), (3, 0.5)) for n in (1, 2)], (1, 1.6)),
    ],
)  # fmt: skip
def test_speedups(rows: list[tuple[int, str, str, int, float]], expected: tuple[float, ...] | None) -> None:
    found = known(*rows).speedup(9, "ann", "net", 2)
    assert (None if found is None else found.values[1:]) == (None if expected is None else pytest.approx(expected))


def test_the_latest_counts() -> None:
    times = known((9, "ann", "net", 1, 1.0), (9, "ann", "net", 2, 1.0))
    assert values(times.speedup(9, "ann", "net", 2)) == [1.0, 1.0]
    times.learn(StepTime(9, "ann", "net", 2, 0.5))
    assert values(times.speedup(9, "ann", "net", 2)) == [1.0, 2.0]
    times.forget(9)
    assert times.speedup(9, "ann", "net", 2) is None


def test_what_is_kept_is_bounded() -> None:
    times = StepTimes()
    for job in range(3000):
        times.learn(StepTime(job, "ann", f"net{job}", 1, 1.0))
    assert [one.job for one in times] == list(range(1000, 3000))


def test_stretches_are_told_when_they_are_news() -> None:
    stretches = Stretches()
    assert [stretches.add(1.0) for _ in range(LEAST_WINDOWS + 2)] == [None] * (LEAST_WINDOWS - 1) + [1.0, None, None]
    assert [stretches.add(60.0) for _ in range(3)] == [None] * 3, "a save or an evaluation now and then"
    assert 2.0 in [stretches.add(2.0) for _ in range(20)], "but it has become slower"


def ran(job: int, workers: int, seconds: float, program: str = "p", nodes: int = 1, name: str = "net") -> StepTime:
    return StepTime(job, "ann", name, workers, seconds, program, nodes)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([ran(1, 1, 1.0), ran(2, 2, 0.625)], (1.0, 1.6)),  # two jobs that run the same, each at one size
        ([ran(1, 1, 1.0), ran(2, 2, 0.625, program="q")], None),
        ([ran(1, 1, 1.0, program=""), ran(2, 2, 0.625, program="")], None),  # nothing is known of what they run
        ([ran(1, 1, 1.0), ran(2, 2, 0.625), ran(9, 1, 2.0)], (1.0, 1.6)),  # it is slower itself, but not in another way
        ([ran(1, 1, 1.0), ran(2, 2, 0.625), ran(9, 1, 1.0), ran(9, 2, 0.5)], (1.0, 2.0)),  # its own count
        ([ran(1, 1, 1.0), ran(2, 2, 0.9, nodes=2), ran(3, 2, 0.5)], (1.0, 2.0)),  # as fast as on the fewest nodes
    ],
)
def test_jobs_that_run_the_same_make_one_curve(known: list[StepTime], expected: tuple[float, ...] | None) -> None:
    found = StepTimes(known).speedup(9, "ann", "net", 2, "p")
    assert (None if found is None else found.values[1:]) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([], None),
        ([ran(9, 2, 1.0)], None),
        ([ran(9, 2, 1.0, nodes=2)], None),  # it was never on one
        ([ran(9, 2, 0.8), ran(9, 2, 1.0, nodes=2)], 0.2),
        ([ran(1, 2, 0.8), ran(2, 2, 1.0, nodes=2)], 0.2),  # of those that run the same
        ([ran(1, 2, 0.8, program="q"), ran(2, 2, 1.0, nodes=2)], None),  # never measured against each other
        ([ran(1, 2, 0.5, program="q"), ran(1, 2, 1.0, program="q", nodes=3)], 0.5),  # else of its name
        ([ran(9, 2, 1.2), ran(9, 2, 1.0, nodes=2)], 0.0),  # chance
        ([ran(9, 4, 0.8), ran(9, 2, 1.0, nodes=2)], None),  # another size
    ],
)
def test_what_several_nodes_cost(known: list[StepTime], expected: float | None) -> None:
    found = StepTimes(known).locality_penalty(9, "ann", "net", "p")
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([], None),
        ([ran(9, 2, 3.0)], 3.0),
        ([ran(9, 4, 2.0)], 4.0),  # by the curve
        ([ran(9, 4, 2.0), ran(9, 2, 3.0)], 3.0),
        ([ran(1, 2, 3.0)], 3.0),  # of its program
        ([ran(1, 2, 3.0), ran(9, 4, 1.0)], 2.0),  # its own first
        ([ran(1, 2, 3.0, program="q")], None),
    ],
)
def test_how_long_a_step_takes(known: list[StepTime], expected: float | None) -> None:
    linear = SpeedUp([1.0, 2.0, 3.0, 4.0])
    assert StepTimes(known).step_time(9, "net", 2, "p", linear) == expected


def test_programs_are_told_apart_by_image_and_command() -> None:
    same = program_of(None, ("train", "--lr=1"))
    assert same == program_of(None, ("train", "--lr=1"))
    assert len({same, program_of("torch", ("train", "--lr=1")), program_of(None, ("train", "--lr=2")), ""}) == 4
    assert program_of("torch", ()) == ""
