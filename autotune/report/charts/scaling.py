"""Throughput and peak against the micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import altair as alt

from autotune.core.study import Study
from autotune.core.units import format_bytes
from autotune.report.chart_data import FittedLine, ScalingPoint, peak_lines, scaling, throughput_lines
from autotune.report.charts.parts import byte_unit, colour, from_zero, interval, powers, shape, tooltip, values
from autotune.report.charts.picture import Picture

_RATE = "samples per second"

# Up to so many micro-batches have a tick of their own; beyond that, powers of two have.
_MOST_TICKS = 12


def throughput_picture(study: Study) -> Picture | None:
    """Throughput with its interval, one colour and shape per program; None where no trial was timed."""
    points = scaling(study)
    if not points:
        return None
    programs = _programs(study)
    base = alt.Chart(values([_row(p) for p in points])).encode(x=_size_axis(points), color=colour(programs, "program"))
    y_scale = from_zero(p.high for p in points)
    y = alt.Y("samples_per_s:Q", title=_RATE, scale=y_scale)
    marks = base.mark_point(filled=True, size=60).encode(
        y=y,
        shape=shape(programs, "program"),
        tooltip=tooltip(trial="trial", program="program", micro_batch="micro-batch", rate_text="samples/s"),
    )
    rules = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=_RATE), y2="high:Q")
    lines = _line_layers(throughput_lines(study), 1, _size_axis(points), y_scale, _RATE, colour(programs, "program"))
    return Picture(
        name="throughput",
        title="Throughput against micro-batch",
        caption="At the same global batch: a smaller micro-batch takes more accumulation steps.",
        note="dashed: fitted with a fixed time per micro-batch, from three micro-batches on" if lines else "",
        body=alt.layer(*lines, rules, marks),
    )


def peak_picture(study: Study) -> Picture | None:
    """Peak with the line fitted to each program's peaks; None where no peak was measured."""
    measured = [(p, p.peak_bytes) for p in scaling(study) if p.peak_bytes is not None]
    if not measured:
        return None
    programs = _programs(study)
    unit, scale = byte_unit(max(peak for _, peak in measured))
    rows = [_row(point) | {"peak": peak / scale, "peak_text": format_bytes(peak)} for point, peak in measured]
    x = _size_axis([point for point, _ in measured])
    y_scale = from_zero(peak / scale for _, peak in measured)
    y = alt.Y("peak:Q", title=f"peak memory ({unit})", scale=y_scale)
    by_program = colour(programs, "program")
    marks = (
        alt.Chart(values(rows))
        .mark_point(filled=True, size=60)
        .encode(
            x=x,
            y=y,
            color=by_program,
            shape=shape(programs, "program"),
            tooltip=tooltip(trial="trial", program="program", micro_batch="micro-batch", peak_text="peak"),
        )
    )
    lines = _line_layers(peak_lines(study), scale, x, y_scale, f"peak memory ({unit})", by_program)
    return Picture(
        name="peak",
        title="Peak memory against micro-batch",
        note="dashed: fitted straight line (curved by the axis), from three micro-batches on" if lines else "",
        caption="Highest bytes that the device's allocator held.",
        body=alt.layer(*lines, marks),
    )


def _line_layers(
    lines: Sequence[FittedLine], scale: int, x: Any, y_scale: Any, title: str, by_program: Any
) -> list[Any]:
    """The dashed lines, or nothing where there are none: a layer without rows would have no extent."""
    rows = [
        {"program": line.program, "micro_batch": size, "fitted": value / scale}
        for line in lines
        for size, value in line.points
    ]
    y = alt.Y("fitted:Q", title=title, scale=y_scale)
    chart = alt.Chart(values(rows)).mark_line(strokeDash=[4, 3]).encode(x=x, y=y, color=by_program)
    return [chart] if rows else []


def _programs(study: Study) -> list[str]:
    """The same list for both charts, so that a program keeps its colour."""
    return sorted({point.program for point in scaling(study)})


def _row(point: ScalingPoint) -> dict[str, Any]:
    return asdict(point) | {"rate_text": interval(point.samples_per_s, point.low, point.high)}


def _size_axis(points: Sequence[ScalingPoint]) -> Any:
    sizes = sorted({p.micro_batch for p in points})
    if len(sizes) > _MOST_TICKS:
        sizes = [2**i for i in range(sizes[-1].bit_length()) if 2**i >= sizes[0]]
    axis = alt.Axis(values=sizes, labelOverlap=True, format="d")
    return alt.X("micro_batch:Q", title="micro-batch (samples)", scale=powers(), axis=axis)
