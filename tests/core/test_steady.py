"""When timings are steady, and what a median is worth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.steady import SMALLEST_FOR_95, is_warm, median_interval


@pytest.mark.parametrize(
    ("times", "warm"),
    [
        ([], False),
        ([9.0], False),
        ([9.0, 1.0, 1.0], False),
        ([9.0, 1.0, 1.0, 1.0], True),
        ([1.0, 1.0, 1.0], False),  # the first never counts
        ([9.0, 4.0, 2.0, 1.0], False),
        ([9.0, 3.0, 1.0, 1.05, 0.98], True),
        ([9.0, 1.0, 1.5, 0.9, 1.4, 1.0, 1.5], True),  # noisy, but no longer falling
        ([9.0, 3.0, 2.8, 2.5, 2.0, 1.6, 1.3], False),
    ],
)
def test_warm(times, warm):
    assert is_warm(times) is warm


@pytest.mark.parametrize(
    # Ranks (from 0) of the 95 % interval: classical tables of order statistics.
    ("n", "rank"),
    [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (20, 5), (50, 17), (100, 39)],
)
def test_interval_ranks(n, rank):
    interval = median_interval(list(range(n)))
    assert (interval.low, interval.high) == (rank, n - 1 - rank)


def test_the_large_approximation_joins_the_exact_one():
    exact, approximate = (median_interval(list(range(n))) for n in (999, 1000))
    assert abs(exact.low - approximate.low) <= 1


def test_interval_covers_the_median_as_often_as_it_says():
    rng = random.Random(1)
    hits = 0
    for _ in range(2000):
        interval = median_interval([rng.lognormvariate(0, 1) for _ in range(25)])
        hits += interval.low <= 1.0 <= interval.high
    assert hits / 2000 >= 0.94


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60))
def test_interval_holds_the_median_and_lies_within_the_data(times):
    interval = median_interval(times)
    assert min(times) <= interval.low <= interval.median <= interval.high <= max(times)
    assert interval.share >= 0
    if len(times) < SMALLEST_FOR_95:
        assert (interval.low, interval.high) == (min(times), max(times))


def test_no_observations():
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])
