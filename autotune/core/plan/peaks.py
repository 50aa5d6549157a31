"""Peaks of all programs of a study: each program's own curve, and what its relatives add where it has too few sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.core.candidate import Candidate
from autotune.core.plan.parts import Parts
from autotune.core.plan.peak_curve import FARTHEST, PeakCurve, PeakForecast
from autotune.core.plan.values import Range

# Accumulators are one copy of the weights; where their size is not known they are at most this share of what the
# micro-batch does not move (weights, their gradients, at least one slot of the optimizer).
ACCUMULATORS_AT_MOST = 1 / 3
# Half-width of what a peak borrowed from a relative may be off: the same program at one step; another program.
ONE_STEP, OTHER_PROGRAM = 0.03, 0.15


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


class PeakModel:
    """Peaks of all programs of a study.

    Args:
        points: what was measured.
        parts: the built model's bytes, where known: they narrow what lies beyond the measured sizes.

    Raises:
        ValueError: all points are of one micro-batch.
    """

    def __init__(self, points: Sequence[PeakPoint], parts: Parts | None = None) -> None:
        self._parts = parts
        grouped: dict[Program, list[tuple[int, float]]] = defaultdict(list)
        for point in points:
            grouped[point.program].append((point.micro_batch, point.peak_bytes))
        if len({point.micro_batch for point in points}) < 2:
            raise ValueError(_too_few(points))
        self.programs = tuple(grouped)
        self.curves = {program: self._curve(program, grouped) for program in grouped}

    def predict(self, candidate: Candidate) -> PeakForecast | None:
        """Forecasts one candidate's peak; None where neither its program nor the same with more steps was measured."""
        program, size = program_of(candidate), candidate.micro_batch
        curve = self.curves.get(program)
        if curve is not None and (size in curve.sizes or curve.has_slope or program.execution != "single"):
            if program.execution == "unrolled" and size not in curve.sizes:
                return None  # how many copies are alive at once is the compiler's choice
            return curve.at(size) if size <= FARTHEST * curve.sizes[-1] else None
        looped = self._looped(program) if program.execution == "single" else None
        if looped is not None:
            return self._without_accumulators(looped, size) if size <= FARTHEST * looped.sizes[-1] else None
        return curve.at(size) if curve is not None else None

    def intercept(self, candidate: Candidate) -> float:
        """Bytes of ``candidate``'s program that no micro-batch can avoid; 0 where unknown."""
        curve = self.curves.get(program_of(candidate)) or self._looped(program_of(candidate))
        return curve.intercept if curve else 0.0

    def _curve(self, program: Program, grouped: dict[Program, list[tuple[int, float]]]) -> PeakCurve:
        """A program's own points, and where these are too few those of its relatives, brought to its level."""
        static = self._parts.static_bytes(accumulates=program.execution != "single") if self._parts else 0
        own = PeakCurve(grouped[program], static)
        if own.has_slope or program.execution == "unrolled":
            return own
        single = replace(program, execution="single")
        if program.execution != "single" and single in grouped:
            gradients = self._parts.gradient_bytes if self._parts else ACCUMULATORS_AT_MOST / 2 * own.peaks[0]
            shifted = [(size, peak + gradients) for size, peak in grouped[single]]
            joined = PeakCurve(grouped[program], static, ONE_STEP, shifted)
            if joined.has_slope:
                return joined
        return self._borrowed(program, own, grouped, static)

    def _borrowed(
        self, program: Program, own: PeakCurve, grouped: dict[Program, list[tuple[int, float]]], static: float
    ) -> PeakCurve:
        """The shape of the nearest program with a slope, scaled to the one point that there is."""
        others = [(p, PeakCurve(pairs)) for p, pairs in grouped.items() if p != program and p.execution != "unrolled"]
        sloped = [(_distance(program, p), str(p), curve) for p, curve in others if curve.has_slope]
        if not sloped:
            return own
        shape = min(sloped, key=lambda item: item[:2])[2]
        size, peak = own.sizes[-1], own.peaks[-1]
        scale = peak / shape.at(size).bytes.expected
        scaled = [(s, scale * p) for s, p in zip(shape.sizes, shape.peaks, strict=True)]
        return PeakCurve(zip(own.sizes, own.peaks, strict=True), static, OTHER_PROGRAM, scaled)

    def _looped(self, program: Program) -> PeakCurve | None:
        """The curve of the same program with accumulation; loops of one call per update come first."""
        like = [
            (not curve.has_slope, other.execution != "fused", str(other.execution), curve)
            for other, curve in self.curves.items()
            if other.execution not in ("single", "unrolled") and _distance(program, other) == (False, False, False)
        ]
        return min(like, key=lambda item: item[:3])[3] if like else None

    def _without_accumulators(self, looped: PeakCurve, size: int) -> PeakForecast:
        found = looped.at(size)
        most = self._parts.gradient_bytes if self._parts else ACCUMULATORS_AT_MOST * looped.intercept
        usual = most if self._parts else most / 2
        low, high = found.bytes.low - most, found.bytes.high - (most if self._parts else 0.0)
        shifted = Range(low=low, expected=found.bytes.expected - usual, high=high)
        return replace(found, bytes=shifted.widened(ONE_STEP), basis="fitted")


def _distance(a: Program, b: Program) -> tuple[bool, bool, bool]:
    """How much the memory of two programs is expected to differ, most telling axis first."""
    return a.recompute != b.recompute, a.precision != b.precision, a.jit_compile != b.jit_compile


def _too_few(points: Iterable[PeakPoint]) -> str:
    sizes = sorted({point.micro_batch for point in points})
    measured = f"micro-batch {sizes[0]} alone" if sizes else "no peak at all"
    return (
        f"a forecast needs peaks at two micro-batches, and the study has {measured}: run 'autotune tune' with more "
        "trials, or with --axis micro_batch=8,16,32,64"
    )
