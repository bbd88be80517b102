"""How far off estimates were."""

import math

from schedulearn.core.estimate.error import Accuracy, accuracy
from schedulearn.core.estimate.remaining import Estimate


def guess(expected: float) -> Estimate:
    return Estimate(expected / 2, expected, expected * 2)


def test_by_hand() -> None:
    # expected / true: 1, 2, 0.5, 4; errors 0, 1, 0.5, 3; truth in low..high for the first three
    found = accuracy([(guess(10), 10), (guess(20), 10), (guess(5), 10), (guess(40), 10)])
    assert found == Accuracy(count=4, median_error=0.75, within_range=0.75, bias=1.5)


def test_only_pairs_with_a_truth_count() -> None:
    assert accuracy([]) is None
    assert accuracy([(guess(1), 0.0), (guess(1), math.nan), (guess(1), math.inf), (guess(1), -3)]) is None
    assert accuracy([(guess(1), 0.0), (guess(0), 5.0)]) == Accuracy(1, 1.0, 0.0, 0.0)
