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
_BORROWED = 0.14  # per octave from one size, by the slope of a relative
_OTHER_PROGRAM = 0.25
# Unrolled copies: 0.33 to 0.82 of the full batch's peak on one CNN, 0.98 on another, 1.05 to 4.2 on an MLP, where the
# copies' gradients weigh more than their activations; the micro-batch says little about it.
_UNROLLED = 0.75
_UNROLLED_BAND = 0.35
# From one size alone: the peak grows about like m**0.85 (a CNN's 48 MB at 16 samples are 261 MB at 128), and shrinks
# more slowly than it grew, because what is left is weights.
_GROWTH = 0.85
_SHRINK = 0.6


# A line through sizes closer than this factor says nothing about its slope: allocators round.
_LEAST_SPREAD = 1.4
# Compiling differently, or looping differently, never halved a peak (jitted 0.85 on a CNN).
_MOST_SAVED = 2.0
_OUT_OF_MEMORY = 1.05  # times the limit: what an out-of-memory trial is taken to need at least


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
        self._measured = [
            (_program(r.candidate), r.candidate.micro_batch, float(r.peak_bytes))
            for r in everything
            if r.completed and r.peak_bytes
        ]
        self._failed = [(_program(r.candidate), r.candidate) for r in everything if r.state is State.OUT_OF_MEMORY]
        self._limit = memory_limit_bytes
        self._points: dict[_Program, list[tuple[int, float]]] = {}
        self._lines: dict[_Program, Line | None] = {}
        self._relatives: dict[_Program, Line | None] = {}

    def ruled_out(self, candidate: Candidate) -> bool:
        """True where the same program has already run out of memory with as much to hold, or less."""
        own = _program(candidate)
        for failed, other in self._failed:
            size = other.micro_batch
            if own.unrolled and failed == own:
                return True  # where all copies are alive at the same time, cutting the batch finer saves nothing
            if size <= candidate.micro_batch and own.shares_line(failed):
                return True
            told = own.holds_the_same(failed) and not self._is_measured(own)
            if _MOST_SAVED * size <= candidate.micro_batch and told:
                return True
        return False

    def predict(self, candidate: Candidate) -> PeakRange | None:
        """Returns the expected peak of ``candidate``; None while nothing is measured."""
        if not self._measured:
            return None
        own = _program(candidate)
        line = self._line(own)
        if line is not None:
            band = max(_INSIDE, 1.5 * line.residual_share) + _PER_OCTAVE * line.octaves_outside(candidate.micro_batch)
            return _around(line.at(candidate.micro_batch), band)
        guess = self._guess(candidate, own)
        alike = own.shares_line if self._is_measured(own) else own.loops_as
        failed = [(c, program) for program, c in self._failed if alike(program)]
        if self._limit is None or not failed:
            return guess
        # What ran out of memory needs more than the limit. What a guess lacks there it lacks at every size:
        # accumulators or workspace that it did not know of.
        lacking = max(0.0, *(_OUT_OF_MEMORY * self._limit - self._guess(c, program).expected for c, program in failed))
        return PeakRange(low=guess.low + lacking, expected=guess.expected + lacking, high=guess.high + lacking)

    def _guess(self, candidate: Candidate, own: _Program) -> PeakRange:
        points = self._own_points(own)
        if not points:
            return self._from_relatives(candidate, own)
        size, peak = min(points, key=lambda point: abs(math.log2(point[0] / candidate.micro_batch)))
        if own.unrolled:
            return _around(peak, _UNROLLED_BAND)
        return self._from_one_point(candidate.micro_batch, size, peak, self._relative_line(own))

    def has_line(self, candidate: Candidate) -> bool:
        """True where two sizes of the candidate's program, well apart, were measured."""
        return self._line(_program(candidate)) is not None

    def would_make_line(self, candidate: Candidate) -> bool:
        """True where measuring ``candidate`` would give its program a line."""
        own = _program(candidate)
        sizes = [(size, 0.0) for size, _ in self._own_points(own)]
        return bool(sizes) and not own.unrolled and _spread([*sizes, (candidate.micro_batch, 0.0)]) >= _LEAST_SPREAD

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

    def _is_measured(self, own: _Program) -> bool:
        """True where the program itself was measured: that outweighs how its relatives failed."""
        return any(program == own for program, _, _ in self._measured)

    def _own_points(self, own: _Program) -> list[tuple[int, float]]:
        if own not in self._points:
            points = [(size, peak) for other, size, peak in self._measured if own.shares_line(other)]
            if self._limit is not None and _spread(points) >= _LEAST_SPREAD:
                # A failed size needs more than the limit; a line that says less is wrong there.
                line = fit_line(points)
                failed = [c.micro_batch for program, c in self._failed if own.shares_line(program)]
                points += [(size, _OUT_OF_MEMORY * self._limit) for size in failed if line.at(size) < self._limit]
            self._points[own] = points
        return self._points[own]

    def _line(self, own: _Program) -> Line | None:
        """The program's line; None without two sizes that are well apart."""
        if own not in self._lines:
            points = [] if own.unrolled else self._own_points(own)  # of copies the micro-batch says little
            self._lines[own] = fit_line(points) if _spread(points) >= _LEAST_SPREAD else None
        return self._lines[own]

    def _relative_line(self, own: _Program) -> Line | None:
        """The line of the most similar program that has one."""
        if own not in self._relatives:
            alike = {p for p, _, _ in self._measured if p.unrolled == own.unrolled}  # copies grow by other rules
            programs = sorted(alike, key=lambda p: (own.distance(p), str(p)))
            self._relatives[own] = next((line for p in programs if (line := self._line(p)) is not None), None)
        return self._relatives[own]

    def _from_one_point(self, micro_batch: int, size: int, peak: float, shape: Line | None) -> PeakRange:
        # Neither part of a + b x m is negative, so the peak grows with m, and no faster than m.
        floor, ceiling = sorted((peak, peak * micro_batch / size))
        if shape is None:
            leaning = _GROWTH if micro_batch > size else 1 - _SHRINK
            return PeakRange(low=0.95 * floor, expected=floor ** (1 - leaning) * ceiling**leaning, high=1.05 * ceiling)
        expected = min(max(peak * shape.at(micro_batch) / shape.at(size), floor), ceiling)
        around = _around(expected, _ONE_POINT + _BORROWED * abs(math.log2(micro_batch / size)))
        return PeakRange(low=max(around.low, 0.95 * floor), expected=expected, high=min(around.high, 1.05 * ceiling))

    def _from_relatives(self, candidate: Candidate, own: _Program) -> PeakRange:
        nearest, size, peak = min(self._measured, key=lambda m: (own.distance(m[0]), abs(m[1] - candidate.micro_batch)))
        factor = own.transfer(nearest)
        if own.unrolled and nearest.unrolled:
            return _around(factor * peak, _UNROLLED_BAND + _OTHER_PROGRAM)
        shape = self._relative_line(nearest)
        guess = self._from_one_point(candidate.micro_batch, size, peak, shape)
        low, expected, high = guess.low / (1 + _OTHER_PROGRAM), factor * guess.expected, factor * guess.high
        if own.unrolled:
            # The copies may be alive all at once, or hardly more than one of them.
            whole = candidate.global_batch // candidate.replicas
            unsaved = self._from_one_point(whole, size, peak, shape)
            expected, high = max(expected, _UNROLLED * factor * unsaved.expected), max(high, factor * unsaved.high)
        return PeakRange(low=min(factor, 1.0) * low, expected=expected, high=(1 + _OTHER_PROGRAM) * high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """Candidates whose peaks lie on one line. ``execution`` is None at one step, where there is no loop."""

    precision: str | None
    jit_compile: bool | None
    recompute: bool | None
    execution: str | None

    @property
    def unrolled(self) -> bool:
        return self.execution == "unrolled"

    def shares_line(self, other: _Program) -> bool:
        """True where both lie on one line.

        The full batch lies on every execution's line but that of unrolled copies, whose peak the micro-batch does not
        set.
        """
        if (self.precision, self.jit_compile, self.recompute) != (other.precision, other.jit_compile, other.recompute):
            return False
        if self.unrolled or other.unrolled:
            return self.execution == other.execution
        return self.execution == other.execution or None in (self.execution, other.execution)

    def holds_the_same(self, other: _Program) -> bool:
        """True where both keep the same activations, so that compilation alone makes the difference."""
        loops = not self.unrolled and not other.unrolled
        return loops and (self.precision, self.recompute) == (other.precision, other.recompute)

    def loops_as(self, other: _Program) -> bool:
        """True where both accumulate, over the same activations: one that failed says something about the other."""
        if self.shares_line(other):
            return True
        looped = self.execution is not None and other.execution is not None and not other.unrolled
        return looped and (self.precision, self.recompute) == (other.precision, other.recompute)

    def distance(self, other: _Program) -> tuple[bool, bool, bool, bool]:
        """Orders programs by how much their memory is expected to differ: most telling axis first."""
        return (
            self.recompute != other.recompute,
            self.precision != other.precision,
            self.unrolled != other.unrolled,
            self.jit_compile != other.jit_compile,
        )

    def transfer(self, known: _Program) -> float:
        """Expected ratio of this program's peak to a known one's, leaning to the large side: small trials correct it.

        16-bit activations take about 0.6 of float32's on a GPU and more than them on a CPU; recomputed blocks left 0.3
        to 0.7 of the activations.
        """
        factor = 1.4 if known.precision != self.precision else 1.0
        if known.recompute and not self.recompute:
            factor *= 2.0
        if self.recompute and not known.recompute:
            factor *= 0.8
        return factor


def _spread(points: Sequence[tuple[int, float]]) -> float:
    sizes = [size for size, _ in points]
    return max(sizes) / min(sizes) if sizes else 0.0


def _program(candidate: Candidate) -> _Program:
    return _Program(
        precision=candidate.precision,
        jit_compile=candidate.jit_compile,
        recompute=candidate.recompute,
        execution=candidate.execution if candidate.accumulation_steps > 1 else None,
    )


def _around(expected: float, band: float) -> PeakRange:
    return PeakRange(low=expected / (1 + band), expected=expected, high=expected * (1 + band))
