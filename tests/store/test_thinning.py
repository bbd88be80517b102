"""The rules of thinning, for any curve and any way it is cut into batches."""

import math
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.store import Point
from schedulearn.store.thinning import MOST_POINTS, MOST_SPARK, Track, reading_stride

lengths = st.one_of(st.integers(1, 60), st.integers(1, 9000), st.integers(1, 4).map(lambda n: n * MOST_POINTS))


def point(n, value):
    return Point(n, float(n), n, "loss", value)


@settings(deadline=None)
@given(lengths, st.integers())
def test_what_is_kept_of_a_curve(length, seed):
    random = Random(seed)
    values = [random.choice([random.uniform(-1e9, 1e9), math.nan, math.inf]) for _ in range(length)]
    track = Track()
    for n, value in enumerate(values):
        track.add(point(n, value))

    ordinals = [n for n, _ in track.fresh]
    assert len(ordinals) <= MOST_POINTS
    assert length < MOST_POINTS or len(ordinals) >= MOST_POINTS // 2
    assert ordinals == sorted(set(ordinals)) == list(range(0, length, track.stride))
    assert all(kept.step == n for n, kept in track.fresh)
    assert (track.count, track.last.step) == (length, length - 1)
    numbers = [value for value in values if not math.isnan(value)]
    assert (track.low, track.high) == (min(numbers, default=None), max(numbers, default=None))
    assert len(track.spark) < MOST_SPARK
    assert repr(track.spark) == repr(values[:: track.spark_stride])


@given(st.integers(1, 10**7), st.integers(0, 12), st.integers(2, 3000))
def test_a_kept_curve_is_read_within_bounds(length, doublings, most):
    stride = 2**doublings
    read = range(0, length, reading_stride(length, stride, most))
    latest_is_missing = read[-1] != length - 1
    assert len(read) + latest_is_missing <= most
    assert read.step % stride == 0
    # No coarser than it must be: with half the stride there would be too many, or it is all there is.
    assert read.step == stride or len(range(0, length, max(stride, read.step // 2))) >= most - 1
