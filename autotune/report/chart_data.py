"""What the charts show, as plain values: computed here, drawn in ``charts``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.core.candidate import Candidate
from autotune.core.memory_fit import fit_line
from autotune.core.study import Study
from autotune.core.trial import TrialRecord

Role = Literal["chosen", "front", "other", "over limit"]

# Longer idle gaps (the study was resumed later) are shown as this many seconds and marked.
_LONGEST_GAP_S = 30.0
_SHOWN_GAP_S = 5.0

_LINE_STEPS = 32
_FEWEST_SIZES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffPoint:
    """One measured trial: throughput in samples/s with its 95 % interval, peak in bytes."""

    trial: int
    label: str
    precision: str
    samples_per_s: float
    low: float
    high: float
    peak_bytes: int
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """Memory against throughput.

    Attributes:
        points: trials of which both were measured.
        front: (peak bytes, samples/s) of the Pareto trials, smallest peak first.
        limit_bytes: the memory limit of the job.
        unplaced: trials that completed without a measured peak.
        failed: trials that did not complete, by state.
    """

    points: tuple[TradeOffPoint, ...]
    front: tuple[tuple[int, float], ...]
    limit_bytes: int | None
    unplaced: int
    failed: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One completed trial against its micro-batch; ``program`` names what else the candidate is made of."""

    trial: int
    program: str
    micro_batch: int
    samples_per_s: float
    low: float
    high: float
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLine:
    """What a program's measurements were fitted with.

    Attributes:
        points: (micro-batch, value) along it; many, for it is a curve where micro-batches are drawn as powers of two.
    """

    program: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScalePoint:
    """Where a loss scale started and ended, and the share of updates skipped, 0 to 1.

    Of one float16 trial, or of one run of the calibration before the first trial (``trial`` is None).
    """

    trial: int | None
    label: str
    initial_loss_scale: float
    final_loss_scale: float | None
    updates_skipped: int
    updates_measured: int
    skipped_share: float
    underflow_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """One phase of one trial, in seconds since the first trial started."""

    trial: int
    state: str
    phase: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All phases, and where the study stood still for long (seconds on the same axis)."""

    bars: tuple[TimelineBar, ...]
    pauses: tuple[float, ...]


def trade_off(study: Study) -> TradeOff:
    """Returns memory against throughput."""
    limit = study.job.memory_limit_bytes
    points = []
    unplaced = 0
    for record in study.records:
        measured, peak = record.outcome.throughput, record.peak_bytes
        over = limit is not None and peak is not None and peak > limit
        if measured is None or not (record.completed or over):
            continue
        if peak is None:
            unplaced += 1
            continue
        points.append(
            TradeOffPoint(
                trial=record.number,
                label=record.candidate.describe(),
                precision=record.candidate.precision or "as written",
                samples_per_s=measured.samples_per_s,
                low=measured.samples_per_s_low,
                high=measured.samples_per_s_high,
                peak_bytes=peak,
                role=_role(study, record, over),
            )
        )
    front = sorted((p.peak_bytes, p.samples_per_s) for p in points if p.trial in study.pareto)
    failed: dict[str, int] = {}
    for record in study.records:
        if not record.completed:
            failed[str(record.state)] = failed.get(str(record.state), 0) + 1
    return TradeOff(points=tuple(points), front=tuple(front), limit_bytes=limit, unplaced=unplaced, failed=failed)


def _role(study: Study, record: TrialRecord, over: bool) -> Role:
    if over:
        return "over limit"
    if record.number == study.chosen:
        return "chosen"
    return "front" if record.number in study.pareto else "other"


def scaling(study: Study) -> tuple[ScalingPoint, ...]:
    """Returns throughput and peak of the completed trials against their micro-batch."""
    return tuple(
        ScalingPoint(
            trial=record.number,
            program=program_name(record.candidate),
            micro_batch=record.candidate.micro_batch,
            samples_per_s=measured.samples_per_s,
            low=measured.samples_per_s_low,
            high=measured.samples_per_s_high,
            peak_bytes=record.peak_bytes,
        )
        for record in study.records
        if record.completed and (measured := record.outcome.throughput) is not None
    )


def program_name(candidate: Candidate) -> str:
    """Returns what a candidate is beside its sizes: ``float16 fused jit``."""
    parts = [
        (candidate.precision or "").removeprefix("mixed_"),
        candidate.execution or "",
        "jit" if candidate.jit_compile else "",
        "recompute" if candidate.recompute else "",
    ]
    return " ".join(filter(None, parts)) or "as written"


def peak_lines(study: Study) -> tuple[FittedLine, ...]:
    """Returns, in bytes, ``a + b x micro-batch`` for every program with peaks at three micro-batches or more."""
    lines = []
    for program, members in _by_program(study):
        measured = [(p.micro_batch, float(p.peak_bytes)) for p in members if p.peak_bytes]
        if _enough(measured):
            lines.append(_along(program, [size for size, _ in measured], fit_line(measured).at))
    return tuple(lines)


def throughput_lines(study: Study) -> tuple[FittedLine, ...]:
    """Returns, in samples/s, the fit of ``update time = a + b x micro-batches`` from three sizes on."""
    batch = study.job.global_batch
    lines = []
    for program, members in _by_program(study):
        timed = [(p.micro_batch, batch / p.samples_per_s) for p in members if p.samples_per_s > 0]
        if _enough(timed):
            # Against the number of micro-batches, the time is a straight line; against their size, a curve.
            line = fit_line([(math.ceil(batch / size), seconds) for size, seconds in timed])
            sizes = [size for size, _ in timed]
            lines.append(_along(program, sizes, lambda size, line=line: batch / line.at(batch / size)))  # type: ignore[misc]
    return tuple(lines)


def _by_program(study: Study) -> Iterator[tuple[str, list[ScalingPoint]]]:
    points = sorted(scaling(study), key=lambda p: (p.program, p.micro_batch))
    for program, members in itertools.groupby(points, key=lambda p: p.program):
        yield program, list(members)


def _enough(measured: Sequence[tuple[int, float]]) -> bool:
    """Through two points any line is exact, and says nothing."""
    return len({size for size, _ in measured}) >= _FEWEST_SIZES


def _along(program: str, sizes: Sequence[int], value: Callable[[float], float]) -> FittedLine:
    smallest, largest = min(sizes), max(sizes)
    grid = (smallest * (largest / smallest) ** (i / _LINE_STEPS) for i in range(_LINE_STEPS + 1))
    return FittedLine(program=program, points=tuple((size, value(size)) for size in grid))


def loss_scales(study: Study) -> tuple[LossScalePoint, ...]:
    """Returns the calibration's runs, and the trials with an initial loss scale whose updates were counted."""
    found = study.loss_scale
    tried = tuple(
        LossScalePoint(
            trial=None,
            label=f"calibration: {row.role}",
            initial_loss_scale=row.scale,
            final_loss_scale=row.final_scale,
            updates_skipped=row.updates_skipped or 0,
            updates_measured=row.updates,
            skipped_share=(row.updates_skipped or 0) / row.updates,
            underflow_share=row.underflow_share,
        )
        for row in (found.rows if found else ())
        if row.updates
    )
    return tried + tuple(
        LossScalePoint(
            trial=record.number,
            label=record.candidate.describe(),
            initial_loss_scale=record.candidate.initial_loss_scale,
            final_loss_scale=record.outcome.final_loss_scale,
            updates_skipped=measured.updates_skipped,
            updates_measured=measured.updates_measured,
            skipped_share=measured.updates_skipped / measured.updates_measured,
        )
        for record in study.records
        if record.candidate.initial_loss_scale is not None
        and (measured := record.outcome.throughput) is not None
        and measured.updates_measured
    )


def timeline(study: Study) -> Timeline:
    """Returns the phases of all trials on one time axis; time that no phase accounts for is ``other``."""
    bars: list[TimelineBar] = []
    pauses: list[float] = []
    cut_out = 0.0  # idle seconds left out so far
    records = sorted(study.records, key=lambda r: (r.started_unix, r.number))
    busy_until = records[0].started_unix if records else 0.0
    origin = busy_until
    for record in records:
        idle = record.started_unix - busy_until
        if idle > _LONGEST_GAP_S:
            pauses.append(busy_until - origin - cut_out + _SHOWN_GAP_S / 2)
            cut_out += idle - _SHOWN_GAP_S
        bars += _trial_bars(record, record.started_unix - origin - cut_out)
        busy_until = max(busy_until, record.started_unix + record.wall_s)
    return Timeline(bars=tuple(bars), pauses=tuple(pauses))


def _trial_bars(record: TrialRecord, start_s: float) -> list[TimelineBar]:
    known = sum(record.outcome.phases.values())
    phases = [*record.outcome.phases.items(), ("other", record.wall_s - known)]
    bars = []
    for phase, seconds in phases:
        if seconds > 0:
            bars.append(
                TimelineBar(
                    trial=record.number, state=str(record.state), phase=phase, start_s=start_s, end_s=start_s + seconds
                )
            )
            start_s += seconds
    return bars
