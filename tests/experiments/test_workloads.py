"""Models and workloads: what was published of them holds, and the same seed gives the same jobs."""

from random import Random

import pytest

from schedulearn.lab.experiments.models import BI_RNN, FLOWCON, GRU, VAE, Model, learning_curve
from schedulearn.lab.experiments.workloads import At, Every, Gaps, Trainings, Within, workload_of


class Exactly(Random):
    """No noise."""

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        return mu


@pytest.mark.parametrize(
    ("curve", "part", "reduction"),
    [(VAE, 0.2, 0.65), (BI_RNN, 0.2, 0.98), (GRU, 0.2, 0.90), (GRU, 0.27, 0.99), (VAE, 0.0, 0.0), (GRU, 1.0, 1.0)],
)
def test_how_much_of_the_loss_is_gone(curve: object, part: float, reduction: float) -> None:
    loss = learning_curve(Model("m", 100.0, curve), Exactly())  # type: ignore[arg-type]
    first, last = loss.value(0.0), loss.value(1.0)
    assert (first - loss.value(part)) / (first - last) == pytest.approx(reduction, abs=0.005)


def test_a_curve_falls_all_the_way() -> None:
    for model in FLOWCON.values():
        values = [value for _, value in learning_curve(model, Exactly()).points()]
        assert len(values) > 100, "an interval must not be silent"
        assert values == sorted(values, reverse=True)


def test_noise_is_seeded_and_small() -> None:
    one, same, other = (learning_curve(FLOWCON["VAE"], Random(seed)) for seed in (1, 1, 2))
    exact = learning_curve(FLOWCON["VAE"], Exactly())
    assert one.points() == same.points() != other.points()
    assert all(abs(a - b) < 0.05 * b for (_, a), (_, b) in zip(one.points(), exact.points(), strict=True))


@pytest.mark.parametrize(
    ("arrivals", "least", "most"),
    [(At((0, 40, 80)), 0, 80), (Every(50.0), 0, 100), (Within(200.0), 0, 200), (Gaps(1.0, 30.0), 0, 60)],
)
def test_arrivals_are_in_order_and_in_range(arrivals: object, least: float, most: float) -> None:
    times = arrivals.times(3, Random(5))  # type: ignore[attr-defined]
    assert len(times) == 3
    assert times == sorted(times)
    assert least <= times[0]
    assert times[-1] <= most


def test_a_workload_is_its_seed_and_nothing_else() -> None:
    jobs = Trainings("mix", FLOWCON, tuple(FLOWCON), Within(200.0), 16, shuffled=True)
    one, same, other = (workload_of(jobs, seed, 8.0, 1.0).jobs for seed in (3, 3, 4))
    assert [(j.name, j.arrival, j.duration) for j in one] == [(j.name, j.arrival, j.duration) for j in same]
    assert [j.name for j in one] != [j.name for j in other]
    assert sorted(j.name for j in one) == sorted(list(FLOWCON) * 2), "every model is there as often as the others"
    assert {j.cpus for j in one if j.name == "LSTM-CFC"} == {0.2 * 8.0}, "a fifth of the machine"


def test_scale_changes_times_and_nothing_else() -> None:
    jobs = Trainings("mix", FLOWCON, tuple(FLOWCON), Within(200.0), 8, shuffled=True)
    full, quarter = (workload_of(jobs, 3, 8.0, scale).jobs for scale in (1.0, 0.25))
    for a, b in zip(full, quarter, strict=True):
        assert (b.arrival, b.duration) == (pytest.approx(a.arrival / 4), pytest.approx(a.duration / 4))
        assert (a.name, a.cpus) == (b.name, b.cpus)
