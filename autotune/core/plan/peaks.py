"""Forecast of the peak at micro-batches that were not run, with intervals.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.core.candidate import Candidate
from autotune.core.plan.parts import Parts
from autotune.core.plan.values import Basis, Range

# Half-width that remains where the bounds meet: allocators round, chunks are split or not.
FLOOR = 0.012
# Where between its bounds the peak is expected, and how much of the way to the upper one the range reaches.
BETWEEN_EXPECTED, BETWEEN_REACH = 0.5, 0.9
BEYOND_EXPECTED, BEYOND_REACH = 0.04, 0.20
KINK_EXPECTED, KINK_REACH = 0.7, 1.1  # the last segment has a kink in it: what follows is steeper than it
BELOW_EXPECTED, BELOW_REACH = 0.25, 0.9
# Each doubling beyond the measured sizes is another chance for a kernel or a rounding to change.
PER_OCTAVE = 0.015
# Two sizes closer than this factor do not tell a slope from rounding.
LEAST_SPREAD = 1.5
# A kink is one from a jump of this share of the peak; and it lies in the last segment where the one before shows less
# than this part of the change.
KINK_SHARE, KINK_BEFORE = 0.04, 0.35
# Sizes beyond this many times the largest measured one are not forecast.
FARTHEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Candidates that run the same program on other sizes. ``execution`` is ``single`` at one accumulation step."""

    precision: str | None
    execution: str | None
    jit_compile: bool | None
    recompute: bool | None

    def describe(self) -> str:
        """For people: ``float32, fused, jitted``."""
        words = [self.precision or "float32"]
        words.append("one step" if self.execution == "single" else self.execution or "own loop")
        words += ["jitted"] if self.jit_compile else []
        words += ["recomputed"] if self.recompute else []
        return ", ".join(words)


def program_of(candidate: Candidate) -> Program:
    """Returns the program of a candidate."""
    return Program(
        precision=candidate.precision,
        execution=candidate.execution if candidate.accumulation_steps > 1 else "single",
        jit_compile=candidate.jit_compile,
        recompute=candidate.recompute,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakPoint:
    """A measured (or compiled) peak."""

    program: Program
    micro_batch: int
    peak_bytes: float


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
        points: (micro-batch, peak bytes) at two sizes or more that are well apart.
        static_bytes: weights, optimizer state and accumulators, as far as known; 0 where they are not.

    Raises:
        ValueError: fewer sizes, or all close to each other.
    """

    def __init__(self, points: Iterable[tuple[int, float]], static_bytes: float = 0.0) -> None:
        by_size: dict[int, list[float]] = defaultdict(list)
        for size, peak in points:
            by_size[size].append(peak)
        self.sizes = sorted(by_size)
        self.peaks = [max(by_size[size]) for size in self.sizes]
        if len(self.sizes) < 2 or self.sizes[-1] < LEAST_SPREAD * self.sizes[0]:
            raise ValueError("a fit needs two micro-batches that are well apart")
        self._static = min(static_bytes, self.peaks[0])

    def at(self, micro_batch: int) -> PeakForecast:
        """Forecasts the peak at ``micro_batch``."""
        if micro_batch in self.sizes:
            peak = self.peaks[self.sizes.index(micro_batch)]
            return PeakForecast(bytes=Range(low=peak, expected=peak, high=peak), basis="measured")
        if micro_batch > self.sizes[-1]:
            return self._beyond(micro_batch)
        if micro_batch < self.sizes[0]:
            return self._below(micro_batch)
        return self._between(micro_batch)

    @property
    def intercept(self) -> float:
        """Bytes that no micro-batch can avoid: the first segment drawn on to 0."""
        return max(self._static, self._line(0, 0))

    @property
    def per_sample(self) -> float:
        """Bytes that one more sample takes, at the largest sizes."""
        return self._slope(len(self.sizes) - 2)

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
        return _forecast(lower, chord, BETWEEN_EXPECTED, BETWEEN_REACH, 0.0)

    def _beyond(self, micro_batch: int) -> PeakForecast:
        last = len(self.sizes) - 1
        drawn = self._line(last - 1, micro_batch)
        moved = self.peaks[last] - self._static
        proportional = max(drawn, self._static + moved * micro_batch / self.sizes[last])
        octaves = math.log2(micro_batch / self.sizes[last])
        if self._ends_in_a_kink():
            return _forecast(drawn, proportional, KINK_EXPECTED, KINK_REACH, octaves)
        flat = self.peaks[last] < (1 + KINK_SHARE) * self.peaks[0]  # something else hides what the micro-batch takes
        return _forecast(drawn, proportional, BEYOND_EXPECTED, 1.0 if flat else BEYOND_REACH, octaves)

    def _ends_in_a_kink(self) -> bool:
        """True where the last segment is steeper than the one before, and that one shows nothing of it yet.

        Had the kink come before the last segment, the segment that holds it would be steeper than its predecessor.
        """
        last = len(self.sizes) - 1
        if last < 2:
            return False
        jump = self.peaks[last] - self._line(last - 2, self.sizes[last])
        if jump < KINK_SHARE * self.peaks[last]:
            return False
        before = self._slope(last - 2) - (self._slope(last - 3) if last >= 3 else self._slope(last - 2))
        return before < KINK_BEFORE * (self._slope(last - 1) - self._slope(last - 2))

    def _below(self, micro_batch: int) -> PeakForecast:
        moved = self.peaks[0] - self._static
        drawn = max(self._line(0, micro_batch), self._static + moved * micro_batch / self.sizes[0])
        octaves = math.log2(self.sizes[0] / micro_batch)
        return _forecast(drawn, max(drawn, self.peaks[0]), BELOW_EXPECTED, BELOW_REACH, octaves)


def _forecast(lower: float, upper: float, expected: float, reach: float, octaves: float) -> PeakForecast:
    gap = upper - lower
    middle = lower + expected * gap
    share = FLOOR + PER_OCTAVE * octaves
    return PeakForecast(
        bytes=Range(low=lower - share * middle, expected=middle, high=lower + reach * gap + share * middle),
        basis="fitted",
        octaves_beyond=octaves,
    )


# Accumulators are one copy of the weights; where their size is not known they are at most this share of what the
# micro-batch does not move (weights, their gradients, at least one slot of the optimizer).
ACCUMULATORS_AT_MOST = 1 / 3
OTHER_PROGRAM = 0.03


class PeakModel:
    """Peaks of all programs of a study.

    Args:
        points: what was measured.
        parts: the built model's bytes, where known: they narrow what lies beyond the measured sizes.

    Raises:
        ValueError: no program was measured at two micro-batches that are well apart.
    """

    def __init__(self, points: Sequence[PeakPoint], parts: Parts | None = None) -> None:
        self._parts = parts
        grouped: dict[Program, list[tuple[int, float]]] = defaultdict(list)
        for point in points:
            grouped[point.program].append((point.micro_batch, point.peak_bytes))
        self.programs = tuple(grouped)
        self.curves: dict[Program, PeakCurve] = {}
        self._alone: dict[Program, dict[int, float]] = {}
        for program, pairs in grouped.items():
            static = parts.static_bytes(accumulates=program.execution != "single") if parts else 0
            try:
                self.curves[program] = PeakCurve(pairs, static)
            except ValueError:
                self._alone[program] = dict(pairs)
        if not self.curves:
            raise ValueError(_too_few(sorted({point.micro_batch for point in points})))

    def predict(self, candidate: Candidate) -> PeakForecast | None:
        """Forecasts one candidate's peak; None where its program was not measured at two sizes, nor one like it."""
        program, size = program_of(candidate), candidate.micro_batch
        measured = self._alone.get(program, {}).get(size)
        if measured is not None:
            return PeakForecast(bytes=Range(low=measured, expected=measured, high=measured), basis="measured")
        curve = self.curves.get(program)
        if curve is not None:
            if program.execution == "unrolled" and size not in curve.sizes:
                return None  # how many copies are alive at once is the compiler's choice
            return curve.at(size) if size <= FARTHEST * curve.sizes[-1] else None
        return self._without_accumulators(program, size) if program.execution == "single" else None

    def intercept(self, candidate: Candidate) -> float:
        """Bytes of ``candidate``'s program that no micro-batch can avoid; 0 where unknown."""
        curve = self.curves.get(program_of(candidate)) or self._looped(program_of(candidate))
        return curve.intercept if curve else 0.0

    def _looped(self, program: Program) -> PeakCurve | None:
        """The curve of the same program with accumulation; loops of one call per update come first."""
        like = [
            (other.execution != "fused", str(other.execution), curve)
            for other, curve in self.curves.items()
            if other.execution not in ("single", "unrolled")
            and (other.precision, other.jit_compile, other.recompute)
            == (program.precision, program.jit_compile, program.recompute)
        ]
        return min(like, key=lambda item: item[:2])[2] if like else None

    def _without_accumulators(self, program: Program, size: int) -> PeakForecast | None:
        curve = self._looped(program)
        if curve is None or size > FARTHEST * curve.sizes[-1]:
            return None
        looped = curve.at(size)
        most = self._parts.gradient_bytes if self._parts else ACCUMULATORS_AT_MOST * curve.intercept
        usual = most if self._parts else most / 2
        low, high = looped.bytes.low - most, looped.bytes.high - (most if self._parts else 0.0)
        shifted = Range(low=low, expected=looped.bytes.expected - usual, high=high)
        return replace(looped, bytes=shifted.widened(OTHER_PROGRAM), basis="fitted")


def _too_few(sizes: Sequence[int]) -> str:
    measured = f"micro-batch {', '.join(map(str, sizes))} alone" if sizes else "no peak at all"
    return (
        f"a forecast needs one program measured at two micro-batches that are well apart; the study has {measured}: "
        "run 'autotune tune' with more trials, or with --axis micro_batch=8,16,32,64"
    )
