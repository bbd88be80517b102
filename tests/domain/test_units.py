"""How people write things."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.units import (
    format_count,
    format_duration,
    format_size,
    parse_duration,
    parse_range,
    parse_size,
    short,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4_000_000_000),
        ("1.5GiB", 1_610_612_736),
        ("512mb", 512_000_000),
        ("7", 7),
        (1024, 1024),
        ("2 G", 2 * 10**9),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text, "memory") == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400), (90, 90), ("90", 90), ("1h 5m", 3900)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text, "time_limit") == seconds


@pytest.mark.parametrize(
    ("text", "low", "high"), [("1..4", 1, 4), (2, 2, 2), ("0.5..4", 0.5, 4), ("3", 3, 3), (0.5, 0.5, 0.5)]
)
def test_ranges(text: object, low: float, high: float) -> None:
    assert parse_range(text, "workers") == (low, high)


@pytest.mark.parametrize(
    "bad", ["", "x", "4 parsecs", -1, math.inf, math.nan, None, [], {}, True, "1e400", "-3GB", "9" * 5000]
)
@pytest.mark.parametrize("parse", [parse_size, parse_duration, parse_range])
def test_bad_input_names_the_field_and_what_is_allowed(parse, bad: object) -> None:  # type: ignore[no-untyped-def]
    if bad == "9" * 5000:
        bad = bad + "x"  # a huge number may be a number; this is none
    with pytest.raises(InvalidSpec) as caught:
        parse(bad, "resources.memory")
    assert caught.value.field == "resources.memory"
    assert caught.value.allowed
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (9.96, "10 s"),
        (45, "45 s"),
        (61, "1 min 1 s"),
        (725, "12 min"),
        (3600, "1 h"),
        (12000, "3 h 20 min"),
        (187200, "2 d 4 h"),
        (1e16, "115740740740 d 17 h"),
        (-5, "-5 s"),
    ],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_counts_in_words() -> None:
    words = [format_count(n, "core") for n in (0, 0.3333, 0.9999, 1, 12)]
    assert words == ["0 cores", "0.333 cores", "1 core", "1 core", "12 cores"]


def test_sizes_in_words() -> None:
    assert [format_size(n) for n in (0, 999, 1500, 2_000_000_000, 3.2e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2 GB",
        "3.2 TB",
    ]


@given(st.integers(0, 10**15))
def test_a_whole_size_reads_back(size: int) -> None:
    assert parse_size(str(size), "f") == size
    assert parse_size(size, "f") == size


@given(st.text())
def test_a_value_in_a_message_is_never_long(text: str) -> None:
    assert len(short(text * 100)) <= 63
