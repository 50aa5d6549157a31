"""Forecast of one program's peak at micro-batches that were not run, with intervals.

At every moment of an update the live bytes are ``a + b x micro-batch``, and the peak is the largest of them. So the
peak is convex in the micro-batch: piecewise linear, with kinks where another moment becomes the largest, and slopes
that only grow. That bounds it strictly by what was measured:

- between two sizes it lies below their chord, and above both neighbouring segments drawn on;
- beyond the largest it lies above the last segment drawn on, and below growth in proportion to the micro-batch of all
  that the micro-batch can move (everything but weights, optimizer state and accumulators);
- below the smallest it lies above the first segment drawn on, and below the smallest size's peak.

Allocators round and kernels change with the size, so the bounds hold to about a percent. A range is what the bounds
leave, less where they are far apart, plus that percent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from autotune.core.plan.values import Basis, Range

# Half-width that remains where the bounds meet: allocators round, chunks are split or not.
FLOOR = 0.02
# Where between its bounds the peak is expected, and how much of the way to the upper one the range reaches.
BETWEEN_EXPECTED, BETWEEN_REACH = 0.5, 0.95
STRAIGHT_EXPECTED = 0.85  # no kink lies within: the chord is the peak
BEYOND_EXPECTED, BEYOND_REACH = 0.04, 0.20
KINK_EXPECTED, KINK_REACH = 0.7, 1.1  # the last segment has a kink in it: what follows is steeper than it
BELOW_EXPECTED, BELOW_REACH = 0.25, 0.9
# Each doubling beyond the measured sizes is another chance for a kernel or a rounding to change.
PER_OCTAVE = 0.015
# From one size alone there is no slope, only the bounds: nothing grows, or all that can. What grows is most of it where
# activations dominate, so the expectation leans that way.
ALONE_BEYOND, ALONE_BELOW = 0.7, 0.4
# Two sizes closer than this factor do not tell a slope from rounding.
LEAST_SPREAD = 1.5
# A kink is one from a jump of this share of the peak; and it lies in the last segment where the one before shows less
# than this part of the change.
KINK_SHARE, KINK_BEFORE = 0.04, 0.25
# Sizes beyond this many times the largest measured one are not forecast.
FARTHEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakForecast:
    """A forecast peak.

    Attributes:
        bytes: the peak.
        basis: ``measured`` for a size that was run.
        octaves_beyond: doublings beyond the measured sizes; 0 between them.
    """

    bytes: Range
    basis: Basis
    octaves_beyond: float = 0.0


class PeakCurve:
    """The peaks of one program.

    Args:
        points: (micro-batch, peak bytes), at least one.
        static_bytes: weights, optimizer state and accumulators, as far as known; 0 where they are not.
        rounding: half-width of what remains where the bounds meet, as a share of the peak.
        borrowed: further points that were not measured but brought over from another program.
    """

    def __init__(
        self,
        points: Iterable[tuple[int, float]],
        static_bytes: float = 0.0,
        rounding: float = FLOOR,
        borrowed: Iterable[tuple[int, float]] = (),
    ) -> None:
        by_size: dict[int, list[float]] = defaultdict(list)
        for size, peak in points:
            by_size[size].append(peak)
        self._measured = frozenset(by_size)
        for size, peak in borrowed:
            if size not in self._measured:
                by_size[size].append(peak)
        self.sizes = sorted(by_size)
        self.peaks = [max(by_size[size]) for size in self.sizes]
        self._static = min(static_bytes, self.peaks[0])
        self._rounding = rounding

    @property
    def has_slope(self) -> bool:
        """True where it holds two sizes that are well apart."""
        return self.sizes[-1] >= LEAST_SPREAD * self.sizes[0]

    def at(self, micro_batch: int) -> PeakForecast:
        """Forecasts the peak at ``micro_batch``."""
        if micro_batch in self.sizes:
            peak = self.peaks[self.sizes.index(micro_batch)]
            if micro_batch not in self._measured:
                return self._forecast(peak, peak, 0.0, 0.0, 0.0)
            return PeakForecast(bytes=Range(low=peak, expected=peak, high=peak), basis="measured")
        if micro_batch > self.sizes[-1]:
            return self._beyond(micro_batch)
        if micro_batch < self.sizes[0]:
            return self._below(micro_batch)
        return self._between(micro_batch)

    @property
    def intercept(self) -> float:
        """Bytes that no micro-batch can avoid: the first segment drawn on to 0."""
        return max(self._static, self._line(0, 0)) if self.has_slope else self._static

    def _slope(self, segment: int) -> float:
        x, y = self.sizes[segment : segment + 2], self.peaks[segment : segment + 2]
        return max(0.0, (y[1] - y[0]) / (x[1] - x[0]))

    def _line(self, segment: int, micro_batch: float) -> float:
        """Segment ``segment`` drawn on, from its end that is nearer."""
        right = micro_batch > self.sizes[segment + 1]
        anchor = segment + 1 if right else segment
        return self.peaks[anchor] + self._slope(segment) * (micro_batch - self.sizes[anchor])

    def _between(self, micro_batch: int) -> PeakForecast:
        right = next(i for i, size in enumerate(self.sizes) if size > micro_batch)
        chord = self._line(right - 1, micro_batch)
        bounds = []
        if right >= 2:
            bounds.append(self._line(right - 2, micro_batch))
        if right + 1 < len(self.sizes):
            bounds.append(self._line(right, micro_batch))
        bounds.append(min(self.peaks[right - 1], chord))
        lower = max(b for b in bounds) if max(bounds) <= chord else chord
        straight = right >= 3 and not self._holds_a_kink(right - 1)
        return self._forecast(lower, chord, STRAIGHT_EXPECTED if straight else BETWEEN_EXPECTED, BETWEEN_REACH, 0.0)

    def _beyond(self, micro_batch: int) -> PeakForecast:
        last = len(self.sizes) - 1
        drawn = self._line(last - 1, micro_batch) if self.has_slope else self.peaks[last]
        moved = self.peaks[last] - self._static
        proportional = max(drawn, self._static + moved * micro_batch / self.sizes[last])
        octaves = math.log2(micro_batch / self.sizes[last])
        if not self.has_slope:
            return self._forecast(drawn, proportional, ALONE_BEYOND, 1.0, octaves)
        if self._holds_a_kink(last - 1):
            return self._forecast(drawn, proportional, KINK_EXPECTED, KINK_REACH, octaves)
        flat = self.peaks[last] < (1 + KINK_SHARE) * self.peaks[0]  # something else hides what the micro-batch takes
        return self._forecast(drawn, proportional, BEYOND_EXPECTED, 1.0 if flat else BEYOND_REACH, octaves)

    def _holds_a_kink(self, segment: int) -> bool:
        """True where a segment is steeper than the one before, and that one shows nothing of it yet.

        Had the kink come before the segment, the one that holds it would be steeper than its own predecessor.
        """
        if segment < 1:
            return False
        jump = self.peaks[segment + 1] - self._line(segment - 1, self.sizes[segment + 1])
        if jump < KINK_SHARE * self.peaks[segment + 1]:
            return False
        before = self._slope(segment - 1) - self._slope(max(segment - 2, 0))
        return before < KINK_BEFORE * (self._slope(segment) - self._slope(segment - 1))

    def _below(self, micro_batch: int) -> PeakForecast:
        moved = self.peaks[0] - self._static
        octaves = math.log2(self.sizes[0] / micro_batch)
        drawn = self._static + moved * micro_batch / self.sizes[0]
        if not self.has_slope:
            return self._forecast(drawn, self.peaks[0], ALONE_BELOW, 1.0, octaves)
        drawn = max(drawn, self._line(0, micro_batch))
        return self._forecast(drawn, max(drawn, self.peaks[0]), BELOW_EXPECTED, BELOW_REACH, octaves)

    def _forecast(self, lower: float, upper: float, expected: float, reach: float, octaves: float) -> PeakForecast:
        gap = upper - lower
        middle = lower + expected * gap
        share = self._rounding + PER_OCTAVE * octaves
        return PeakForecast(
            bytes=Range(low=lower - share * middle, expected=middle, high=lower + reach * gap + share * middle),
            basis="fitted",
            octaves_beyond=octaves,
        )
