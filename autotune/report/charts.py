"""The charts as Altair descriptions: one for the page, PNG and SVG alike.

Colours are Okabe and Ito's, which colour-blind readers can tell apart, and shapes say the same a second time. The
values come from ``chart_data``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

import altair as alt
import vl_convert

from autotune.core.study import Study
from autotune.core.units import format_bytes, format_rate, format_seconds
from autotune.report import chart_data
from autotune.report.words import one_line, share

Width = int | Literal["container"]

_PAPER_WIDTH = 640
_HEIGHT = 340
# Blue, vermilion, green, purple, orange, sky blue (Okabe & Ito, "Color Universal Design", 2008), then grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_GREY = "#7F7F7F"
_TALLEST_TIMELINE = 640
# Beyond this many times the largest peak, a limit would squeeze the points into a corner.
_LIMIT_IN_SIGHT = 1.6


def vega_lite_version() -> str:
    """Returns the Vega-Lite version of the descriptions, as ``vl_convert`` names it."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def draw(chart: Any, kind: Literal["png", "svg"]) -> bytes:
    """Returns a chart as a picture; PNG at twice its size, for print."""
    spec = chart.to_dict()
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())).encode()
    return bytes(vl_convert.vegalite_to_png(spec, vl_version=vega_lite_version(), scale=2))


def study_charts(study: Study, width: Width = _PAPER_WIDTH) -> dict[str, Any]:
    """Returns the charts that have something to show, by file name without ending."""
    charts = {"pareto": trade_off_chart(study, width)}
    if chart_data.scaling(study):
        charts["throughput"] = throughput_chart(study, width)
    if any(point.peak_bytes for point in chart_data.scaling(study)):
        charts["peak"] = peak_chart(study, width)
    if chart_data.loss_scales(study):
        charts["loss-scale"] = loss_scale_chart(study, width)
    if study.records:
        charts["timeline"] = timeline_chart(study, width)
    return charts


def trade_off_chart(study: Study, width: Width = _PAPER_WIDTH) -> Any:
    """Memory against throughput: intervals, Pareto line, limit with the region beyond it, the chosen point labelled."""
    data = chart_data.trade_off(study)
    limit = data.limit_bytes
    largest = max((p.peak_bytes for p in data.points), default=limit or 2**20)
    in_sight = limit is not None and limit <= _LIMIT_IN_SIGHT * largest
    edge = 1.08 * max(largest, limit if limit is not None and in_sight else 0)
    unit, scale = _byte_unit(edge)
    x_scale = alt.Scale(domain=[0, edge / scale], nice=False)
    x = alt.X("peak:Q", title=f"peak memory ({unit})", scale=x_scale)
    precisions = list(dict.fromkeys(p.precision for p in data.points))
    rows = [
        asdict(p)
        | {
            "peak": p.peak_bytes / scale,
            "what": f"trial {p.trial}: {p.label}",
            "peak_text": format_bytes(p.peak_bytes),
            "rate_text": _interval(p.samples_per_s, p.low, p.high),
        }
        for p in data.points
    ]
    y = alt.Y("samples_per_s:Q", title="samples per second", scale=_from_zero(p.high for p in data.points))
    note = _trade_off_note(data, in_sight)
    layers = []
    if in_sight and limit is not None:
        layers += _limit_layers(limit / scale, edge / scale, format_bytes(limit), f"peak memory ({unit})", x_scale)
    base = alt.Chart(_values(rows))
    if not rows:
        nothing = alt.Chart(_values([{"text": "no trial completed with a measured peak"}]))
        layers.append(nothing.mark_text(fontSize=14).encode(text="text:N"))
        return _finish(alt.layer(*layers), study, "Memory against throughput", width, note)
    front = [{"peak": p / scale, "samples_per_s": rate} for p, rate in data.front]
    layers += [
        alt.Chart(_values(front)).mark_line(interpolate="step-after", color=_GREY, strokeWidth=1.5).encode(x=x, y=y),
        base.mark_rule(strokeWidth=1.5).encode(
            x=x, y=alt.Y("low:Q", title="samples per second"), y2="high:Q", color=_colour(precisions, "precision")
        ),
        base.mark_point(filled=True, size=70, opacity=0.9).encode(
            x=x,
            y=y,
            color=_colour(precisions, "precision"),
            shape=alt.Shape("precision:N", scale=alt.Scale(domain=precisions, range=list(SHAPES)), title="precision"),
            opacity=alt.condition("datum.role === 'chosen' || datum.role === 'front'", alt.value(1), alt.value(0.5)),
            tooltip=_tooltip(what="candidate", rate_text="samples/s", peak_text="peak", role="role"),
        ),
    ]
    chosen = [row | {"text": _wrapped(str(row["label"]))} for row in rows if row["role"] == "chosen"]
    # The label goes to the side with more room.
    side = -1 if chosen and float(str(chosen[0]["peak"])) > edge / scale / 2 else 1
    ring = alt.Chart(_values(chosen))
    layers += [
        ring.mark_point(size=260, strokeWidth=2, color="#000000", filled=False).encode(x=x, y=y),
        ring.mark_text(
            align="left" if side > 0 else "right", dx=14 * side, dy=-14, lineBreak="\n", fontWeight="bold"
        ).encode(x=x, y=y, text="text:N"),
    ]
    return _finish(alt.layer(*layers), study, "Memory against throughput", width, note)


def _limit_layers(limit: float, edge: float, text: str, title: str, scale: Any) -> list[Any]:
    x = alt.X("from:Q", title=title, scale=scale)
    region = alt.Chart(_values([{"from": limit, "to": edge, "text": f"limit {text}"}]))
    return [
        region.mark_rect(color=_GREY, opacity=0.15).encode(x=x, x2="to:Q"),
        region.mark_rule(color="#D55E00", strokeDash=[6, 4], strokeWidth=1.5).encode(x=x),
        region.mark_text(align="right", dx=-4, dy=-4, baseline="bottom", fontStyle="italic").encode(
            x=x, y=alt.value("height"), text="text:N"
        ),
    ]


def _trade_off_note(data: chart_data.TradeOff, in_sight: bool) -> str:
    parts = [f"{count} {state.replace('_', ' ')}" for state, count in data.failed.items()]
    if data.unplaced:
        parts.append(f"{data.unplaced} without a measured peak")
    note = f"not shown: {', '.join(parts)}" if parts else ""
    if data.limit_bytes is not None and not in_sight:
        note = f"limit {format_bytes(data.limit_bytes)}, far to the right{'; ' if note else ''}{note}"
    return note


def throughput_chart(study: Study, width: Width = _PAPER_WIDTH) -> Any:
    """Throughput with its interval against the micro-batch, one colour per program."""
    rows = _scaling_rows(study)
    programs = sorted({str(row["program"]) for row in rows})
    base = alt.Chart(_values(rows)).encode(x=_micro_batch_axis(rows), color=_colour(programs, "program"))
    y = alt.Y("samples_per_s:Q", title="samples per second", scale=_from_zero(row["high"] for row in rows))
    points = base.mark_point(filled=True, size=60).encode(
        y=y,
        shape=alt.Shape("program:N", scale=alt.Scale(domain=programs, range=list(SHAPES)), title="program"),
        tooltip=_tooltip(trial="trial", program="program", micro_batch="micro-batch", rate_text="samples/s"),
    )
    layers = [base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title="samples per second"), y2="high:Q"), points]
    return _finish(alt.layer(*layers), study, "Throughput against micro-batch", width)


def peak_chart(study: Study, width: Width = _PAPER_WIDTH) -> Any:
    """Peak against the micro-batch, with the line fitted to each program's peaks."""
    rows = [row for row in _scaling_rows(study) if row["peak_bytes"] is not None]
    unit, scale = _byte_unit(max(float(str(row["peak_bytes"])) for row in rows))
    for row in rows:
        row["peak"] = float(str(row["peak_bytes"])) / scale
    programs = sorted({str(row["program"]) for row in rows})
    x = _micro_batch_axis(rows)
    y = alt.Y("peak:Q", title=f"peak memory ({unit})", scale=_from_zero(row["peak"] for row in rows))
    ends = [
        {"program": line.program, "micro_batch": size, "peak": peak / scale}
        for line in chart_data.peak_lines(study)
        for size, peak in (line.start, line.end)
    ]
    line = alt.Chart(_values(ends)).mark_line(strokeDash=[4, 3]).encode(x=x, y=y, color=_colour(programs, "program"))
    points = (
        alt.Chart(_values(rows))
        .mark_point(filled=True, size=60)
        .encode(
            x=x,
            y=y,
            color=_colour(programs, "program"),
            shape=alt.Shape("program:N", scale=alt.Scale(domain=programs, range=list(SHAPES)), title="program"),
            tooltip=_tooltip(trial="trial", program="program", micro_batch="micro-batch", peak_text="peak"),
        )
    )
    note = "dashed: least-squares line, where three micro-batches or more were measured" if ends else ""
    return _finish(alt.layer(*([line] if ends else []), points), study, "Peak memory against micro-batch", width, note)


def loss_scale_chart(study: Study, width: Width = _PAPER_WIDTH) -> Any:
    """Initial loss scale against the share of updates skipped."""
    rows = [
        asdict(point)
        | {
            "percent": 100 * point.skipped_share,
            "skipped": f"{point.updates_skipped} of {point.updates_measured} ({share(point.skipped_share)})",
            "ended": "-" if point.final_loss_scale is None else f"{point.final_loss_scale:g}",
        }
        for point in chart_data.loss_scales(study)
    ]
    chart = (
        alt.Chart(_values(rows))
        .mark_point(filled=True, size=80, color=PALETTE[0], opacity=0.8)
        .encode(
            x=alt.X("initial_loss_scale:Q", title="initial loss scale", scale=_powers()),
            y=alt.Y("percent:Q", title="updates skipped (%)", scale=_from_zero(row["percent"] for row in rows)),
            tooltip=_tooltip(label="candidate", initial_loss_scale="started at", ended="ended at", skipped="skipped"),
        )
    )
    return _finish(alt.layer(chart), study, "Loss scale against skipped updates", width)


def timeline_chart(study: Study, width: Width = _PAPER_WIDTH) -> Any:
    """When each trial ran and what it spent its time on."""
    data = chart_data.timeline(study)
    phases = list(dict.fromkeys(bar.phase for bar in data.bars if bar.phase != "other"))
    rows = [asdict(bar) | {"seconds": format_seconds(bar.end_s - bar.start_s)} for bar in data.bars]
    colours = [PALETTE[i % (len(PALETTE) - 1)] for i in range(len(phases))]
    bars = (
        alt.Chart(_values(rows))
        .mark_bar()
        .encode(
            x=alt.X("start_s:Q", title="seconds since the first trial started"),
            x2="end_s:Q",
            y=alt.Y("trial:O", title="trial", axis=alt.Axis(labelOverlap=True)),
            color=alt.Color(
                "phase:N", title="phase", scale=alt.Scale(domain=[*phases, "other"], range=[*colours, "#BBBBBB"])
            ),
            tooltip=_tooltip(trial="trial", state="state", phase="phase", seconds="time"),
        )
    )
    pauses = alt.Chart(_values([{"at": at} for at in data.pauses]))
    layers = [bars, pauses.mark_rule(strokeDash=[2, 3], color=_GREY, strokeWidth=2).encode(x="at:Q")]
    height = max(80, min(_TALLEST_TIMELINE, 18 * len(study.records)))
    note = "dotted: the study stood still, and the time is left out" if data.pauses else ""
    return _finish(alt.layer(*layers), study, "Study timeline", width, note, height)


def _finish(chart: Any, study: Study, title: str, width: Width, subtitle: str = "", height: int = _HEIGHT) -> Any:
    job = study.job
    where = f"{one_line(job.workload.entry_point)}, global batch {job.global_batch}, {one_line(job.hardware.device)}"
    heading = alt.TitleParams(title, subtitle=list(filter(None, (where, subtitle))), anchor="start", fontSize=15)
    return (
        chart.properties(width=width, height=height, title=heading, background="white", padding=12)
        .configure_axis(labelFontSize=12, titleFontSize=12, gridOpacity=0.5)
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolOpacity=1, orient="bottom", labelLimit=260)
        .configure_title(subtitleFontSize=12, subtitlePadding=4)
        .configure_view(stroke=None)
    )


def _scaling_rows(study: Study) -> list[dict[str, object]]:
    return [
        asdict(point)
        | {
            "rate_text": _interval(point.samples_per_s, point.low, point.high),
            "peak_text": format_bytes(point.peak_bytes),
        }
        for point in chart_data.scaling(study)
    ]


def _micro_batch_axis(rows: list[dict[str, object]]) -> Any:
    sizes = sorted({int(str(row["micro_batch"])) for row in rows})
    # Ticks at what was measured; labels that would touch are left out.
    axis = alt.Axis(values=sizes, labelOverlap=True, format="d")
    return alt.X("micro_batch:Q", title="micro-batch (samples)", scale=_powers(), axis=axis)


def _from_zero(values: Iterable[object]) -> Any:
    """A scale from 0 with room above the largest value."""
    largest = max((float(str(value)) for value in values), default=0.0)
    return alt.Scale(domain=[0, 1.12 * largest or 1], nice=False)


def _powers() -> Any:
    """A scale of powers of two, with room at both ends."""
    return alt.Scale(type="log", base=2, padding=16, nice=False)


def _colour(names: list[str], field: str) -> Any:
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    return alt.Color(f"{field}:N", title=field, scale=alt.Scale(domain=names, range=colours))


def _tooltip(**fields: str) -> list[Any]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()]


def _interval(rate: float, low: float, high: float) -> str:
    return f"{format_rate(rate)} ({format_rate(low)} to {format_rate(high)})"


def _wrapped(label: str) -> str:
    """Breaks a candidate's description after its first part, so that it stays beside its point."""
    first, _, rest = label.partition(", ")
    return f"{first}\n{rest}" if rest else first


def _byte_unit(largest: float) -> tuple[str, int]:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if largest >= 2 * scale:
            return unit, scale
    return "bytes", 1


def _values(rows: list[Any]) -> Any:
    return alt.Data(values=rows)
