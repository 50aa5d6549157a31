"""Peak memory as a function of the micro-batch: fitted to what was measured, with a band that says how far to trust it.

Peak is close to ``a + b x micro-batch`` within a class of candidates that run the same program, and only close: a small
CNN fitted on 16 to 64 samples missed 128 by 6 %. The band grows with the distance from what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.trial import TrialRecord

# Half-widths of the band, as shares of the expected peak. Chosen on the two CNNs and the MLP whose peaks are known
# exactly, then widened: too wide costs a trial, too narrow costs an out-of-memory error.
_INSIDE = 0.04
_PER_OCTAVE = 0.07
_ONE_POINT = 0.10
_OTHER_CLASS = 0.35


class Fit(Enum):
    """Whether a candidate is expected to fit."""

    YES = "yes"
    UNSURE = "unsure"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``intercept + slope x micro-batch`` in bytes, both at least 0.

    Attributes:
        intercept: bytes at micro-batch 0 (weights, optimizer state, workspace).
        slope: bytes per sample.
        residual_share: largest miss on the points it was fitted to, as a share of the measured peak.
        smallest, largest: micro-batches between which it was fitted.
    """

    intercept: float
    slope: float
    residual_share: float
    smallest: int
    largest: int

    def at(self, micro_batch: float) -> float:
        """Expected peak in bytes."""
        return self.intercept + self.slope * micro_batch

    def octaves_outside(self, micro_batch: int) -> float:
        """How far ``micro_batch`` lies outside the fitted range, in factors of two."""
        return max(0.0, math.log2(micro_batch / self.largest), math.log2(self.smallest / micro_batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRange:
    """A predicted peak in bytes: expected, and a band that should hold the measured one about 19 times in 20."""

    low: float
    expected: float
    high: float

    def fits(self, limit_bytes: int | None) -> Fit:
        """Compares the band with a limit."""
        if limit_bytes is None or self.high <= limit_bytes:
            return Fit.YES
        return Fit.NO if self.low > limit_bytes else Fit.UNSURE

    def chance(self, limit_bytes: int | None) -> float:
        """Probability that the peak keeps within the limit, 0 to 1."""
        if limit_bytes is None:
            return 1.0
        sigma = max((self.high - self.low) / 4, 1.0)
        return 0.5 * (1 + math.erf((limit_bytes - self.expected) / (sigma * math.sqrt(2))))


def fit_line(points: Sequence[tuple[int, float]]) -> Line:
    """Fits a line to (micro-batch, peak bytes), by least squares of the relative misses, with no negative part.

    Args:
        points: at least one; a single point gives a flat line through it.
    """
    weights = [1 / (peak * peak) for _, peak in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    shared = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = max(shared / spread, 0.0) if spread > 0 else 0.0
    intercept = mean_y - slope * mean_x
    if intercept < 0:  # proportional: least squares through the origin
        intercept = 0.0
        slope = sum(w * x * y for w, (x, y) in zip(weights, points, strict=True)) / sum(
            w * x * x for w, (x, _) in zip(weights, points, strict=True)
        )
    residual = max(abs(intercept + slope * x - y) / y for x, y in points)
    sizes = [x for x, _ in points]
    return Line(intercept=intercept, slope=slope, residual_share=residual, smallest=min(sizes), largest=max(sizes))


class PeakModel:
    """Predicts peaks from the measured ones.

    Args:
        records: trials so far, completed or not.
        memory_limit_bytes: the limit that an out-of-memory trial ran into.
    """

    def __init__(self, records: Iterable[TrialRecord], memory_limit_bytes: int | None = None) -> None:
        everything = tuple(records)
        self._measured = [(r.candidate, float(r.peak_bytes)) for r in everything if r.completed and r.peak_bytes]
        self._failed = [r.candidate for r in everything if r.state is State.OUT_OF_MEMORY]
        self._limit = memory_limit_bytes

    def ruled_out(self, candidate: Candidate) -> bool:
        """True where the same program has already run out of memory with this micro-batch or a smaller one."""
        return any(f.micro_batch <= candidate.micro_batch and _same_program(f, candidate) for f in self._failed)

    def predict(self, candidate: Candidate) -> PeakRange | None:
        """Returns the expected peak of ``candidate``; None while nothing is measured."""
        if not self._measured:
            return None
        own = self._own_points(candidate)
        if len({size for size, _ in own}) > 1:
            line = fit_line(own)
            band = max(_INSIDE, 1.5 * line.residual_share) + _PER_OCTAVE * line.octaves_outside(candidate.micro_batch)
            return _around(line.at(candidate.micro_batch), band)
        if own:
            return self._from_one_point(candidate, *own[0])
        return self._from_relatives(candidate)

    def chance(self, candidate: Candidate) -> float:
        """Probability that ``candidate`` fits, 0 to 1; 0.5 while nothing is measured and there is a limit."""
        if self._limit is None:
            return 1.0
        if self.ruled_out(candidate):
            return 0.0
        predicted = self.predict(candidate)
        return 0.5 if predicted is None else predicted.chance(self._limit)

    def fits(self, candidate: Candidate) -> Fit:
        """Whether ``candidate`` is expected to fit within the limit."""
        if self._limit is None:
            return Fit.YES
        if self.ruled_out(candidate):
            return Fit.NO
        predicted = self.predict(candidate)
        return Fit.UNSURE if predicted is None else predicted.fits(self._limit)

    def _own_points(self, candidate: Candidate) -> list[tuple[int, float]]:
        points = [(c.micro_batch, peak) for c, peak in self._measured if _same_program(c, candidate)]
        if self._limit is not None:  # a failed size needs more than the limit; a line that says less is wrong there
            points += [
                (c.micro_batch, 1.05 * self._limit)
                for c in self._failed
                if _same_program(c, candidate) and len(points) > 1 and fit_line(points).at(c.micro_batch) < self._limit
            ]
        return points

    def _from_one_point(self, candidate: Candidate, size: int, peak: float) -> PeakRange:
        factor = candidate.micro_batch / size
        # Neither part of a + b x m is negative, so the peak grows with m, and no faster than m.
        floor, ceiling = sorted((peak, peak * factor))
        shape = self._relative_line(candidate)
        if shape is None:
            expected = math.sqrt(floor * ceiling)
            return PeakRange(low=0.95 * floor, expected=expected, high=1.05 * ceiling)
        expected = peak * shape.at(candidate.micro_batch) / shape.at(size)
        around = _around(expected, _ONE_POINT + _PER_OCTAVE * abs(math.log2(factor)))
        return PeakRange(
            low=max(around.low, 0.95 * floor),
            expected=min(max(expected, floor), ceiling),
            high=min(around.high, 1.05 * ceiling),
        )

    def _from_relatives(self, candidate: Candidate) -> PeakRange:
        line = self._relative_line(candidate)
        if line is None:
            nearest = min(self._measured, key=lambda m: (_distance(m[0], candidate), m[1]))
            guess = self._from_one_point(candidate, nearest[0].micro_batch, nearest[1])
            return PeakRange(
                low=guess.low * (1 - _OTHER_CLASS), expected=guess.expected, high=guess.high * (1 + _OTHER_CLASS)
            )
        wide = _around(
            line.at(candidate.micro_batch), _OTHER_CLASS + _PER_OCTAVE * line.octaves_outside(candidate.micro_batch)
        )
        if candidate.execution == "unrolled" and candidate.accumulation_steps > 1:
            # Unrolled micro-batches may be alive all at once: then the saving is lost (FACTS: 296 against 82 MB).
            whole = line.at(candidate.global_batch / candidate.replicas)
            return PeakRange(low=wide.low, expected=wide.expected, high=max(wide.high, 1.1 * whole))
        return wide

    def _relative_line(self, candidate: Candidate) -> Line | None:
        """The line of the most similar class with two sizes or more."""
        lines = []
        for other, _ in self._measured:
            points = [(c.micro_batch, p) for c, p in self._measured if _same_program(c, other)]
            if len({size for size, _ in points}) > 1:
                lines.append((_distance(other, candidate), fit_line(points)))
        return min(lines, key=lambda pair: pair[0])[1] if lines else None


def _same_program(a: Candidate, b: Candidate) -> bool:
    """Candidates whose peaks lie on one line.

    At one step there is no loop, so the full batch belongs to every execution but the unrolled one, whose peak does not
    follow the micro-batch alone.
    """
    if (a.precision, a.jit_compile, a.recompute) != (b.precision, b.jit_compile, b.recompute):
        return False
    if a.execution == b.execution and "unrolled" not in (a.execution, b.execution):
        return True
    single = (a.accumulation_steps == 1, b.accumulation_steps == 1)
    if a.execution == b.execution:
        return single[0] == single[1]
    return any(single) and "unrolled" not in (a.execution, b.execution)


def _distance(a: Candidate, b: Candidate) -> tuple[bool, bool, bool, bool]:
    """Orders classes by how much their memory is expected to differ: most telling axis first."""
    return (
        a.recompute != b.recompute,
        a.precision != b.precision,
        "unrolled" in (a.execution, b.execution) and a.execution != b.execution,
        a.jit_compile != b.jit_compile,
    )


def _around(expected: float, band: float) -> PeakRange:
    return PeakRange(low=expected / (1 + band), expected=expected, high=expected * (1 + band))
