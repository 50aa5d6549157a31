"""When timings are steady, and how far a median can be trusted. Pure: times in, verdict out.

The interval is the distribution-free one from order statistics (Hahn and Meeker, "Statistical Intervals", 5.2): the
number of observations below the true median is binomial(n, 1/2), so two order statistics bracket it with a
known probability, whatever the shape of the timings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SMALLEST_FOR_95 = 6
"""Fewest observations whose range covers the median with at least 95 % (1 - 2 / 2**6 = 96.9 %)."""

_RECENT = 3
_FLAT = 1.10
_STILL_FALLING = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A median with its interval, in the unit of the observations."""

    median: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """The wider side of the interval as a share of the median."""
        return max(self.high - self.median, self.median - self.low) / self.median if self.median > 0 else math.inf


def is_warm(times: Sequence[float]) -> bool:
    """Tells whether updates have stopped getting faster.

    Warm is: the last three lie within 10 % of each other, or (on a noisy machine) the median of the last three is no
    longer more than 5 % below that of the three before. The very first update never counts, it traces and compiles.
    """
    later = times[1:]
    if len(later) < _RECENT:
        return False
    recent = later[-_RECENT:]
    if max(recent) <= _FLAT * min(recent):
        return True
    before = later[-2 * _RECENT : -_RECENT]
    return len(before) == _RECENT and median(recent) >= _STILL_FALLING * median(before)


def median_interval(times: Sequence[float]) -> Interval:
    """Returns the median with its narrowest symmetric order-statistic interval of at least 95 %.

    With fewer than :data:`SMALLEST_FOR_95` observations no such interval exists; the range stands in for it.

    Raises:
        ValueError: no observations.
    """
    if not times:
        raise ValueError("a median needs at least one observation")
    ordered = sorted(times)
    rank = _lower_rank(len(ordered))
    return Interval(median=median(ordered), low=ordered[rank], high=ordered[-1 - rank])


def _lower_rank(n: int) -> int:
    """Largest r (from 0) such that the order statistics r and n-1-r cover the median with at least 95 %."""
    if n >= 1000:  # normal approximation: right to a fraction of a rank here, and free of underflow
        return math.floor((n - 1.96 * math.sqrt(n)) / 2) - 1
    tail, rank = 0.0, 0
    for r in range(n // 2):
        tail += math.comb(n, r) * 0.5**n
        if 2 * tail > 0.05:
            break
        rank = r
    return rank
