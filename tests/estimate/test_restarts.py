"""What a restart will cost, from what restarts took."""

import pytest

from schedulearn.core.estimate.restarts import Restart, RestartCosts

KNOWN = [
    Restart(1, 2, "ann", "mnist", 4.0),
    Restart(1, 3, "ann", "mnist", 6.0),
    Restart(1, 4, "ann", "mnist", 40.0),  # an outlier
    Restart(2, 2, "ann", "mnist", 10.0),
    Restart(3, 2, "bob", "mnist", 20.0),
    Restart(4, 2, "bob", "gpt", 100.0),
]


@pytest.mark.parametrize(
    ("job", "user", "name", "cost"),
    [
        (1, "ann", "mnist", 6.0),  # its own
        (9, "ann", "mnist", 8.0),  # of its user and name
        (9, "cat", "mnist", 10.0),  # of its name
        (9, "bob", "gpt", 100.0),  # one like it is better than many that are not
        (9, "ann", "gpt", 100.0),
        (9, "ann", "other", 15.0),  # of all
    ],
)
def test_the_most_alike_tell(job: int, user: str, name: str, cost: float) -> None:
    assert RestartCosts(KNOWN).cost(job, user, name) == cost


def test_too_little_is_known() -> None:
    assert RestartCosts().cost(1, "ann", "mnist") is None
    assert RestartCosts(KNOWN[:2]).cost(9, "bob", "gpt") is None, "two restarts of others tell nothing"


def test_the_oldest_are_forgotten() -> None:
    costs = RestartCosts(KNOWN)
    for attempt in range(2, 300):
        costs.learn(Restart(5, attempt, "ann", "mnist", 1.0))
    assert len(list(costs)) == 200
    assert costs.cost(4, "bob", "gpt") == 1.0
    assert costs.knows(5, 299)
    assert not costs.knows(1, 2)
