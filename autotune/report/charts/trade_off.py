"""Memory against throughput: the chart that the whole study is about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import altair as alt

from autotune.core.study import Study
from autotune.core.units import format_bytes
from autotune.report.chart_data import TradeOff, TradeOffPoint, trade_off
from autotune.report.charts.parts import (
    GREY,
    LIMIT_COLOUR,
    byte_unit,
    colour,
    from_zero,
    interval,
    shape,
    tooltip,
    values,
)
from autotune.report.charts.picture import Picture

# Beyond this many times the largest peak, a limit would squeeze the points into a corner.
_LIMIT_IN_SIGHT = 1.6


def trade_off_picture(study: Study) -> Picture:
    """Intervals, Pareto line, limit with the region beyond it, the chosen point ringed and labelled."""
    data = trade_off(study)
    limit = data.limit_bytes
    largest = max((p.peak_bytes for p in data.points), default=limit or 2**20)
    shown_limit = limit if limit is not None and limit <= _LIMIT_IN_SIGHT * largest else None
    edge = 1.08 * max(largest, shown_limit or 0)
    unit, scale = byte_unit(edge)
    domain = alt.Scale(domain=[0, edge / scale], nice=False)

    def peak_axis(field: str) -> Any:
        return alt.X(f"{field}:Q", title=f"peak memory ({unit})", scale=domain)

    layers = []
    if shown_limit is not None:
        layers += _limit_layers(shown_limit / scale, edge / scale, format_bytes(shown_limit), peak_axis("limit"))
    if data.points:
        layers += _point_layers(data, scale, edge, peak_axis("peak"))
    else:
        nothing = alt.Chart(values([{"text": "no trial completed with a measured peak"}]))
        layers.append(nothing.mark_text(fontSize=14).encode(text="text:N"))
    return Picture(
        name="pareto",
        title="Memory against throughput",
        note=_note(data, shown_limit),
        caption="The line joins the trials that no other trial beats in both; bars are 95 % intervals of the median.",
        body=alt.layer(*layers),
        wide=True,
    )


def _limit_layers(limit: float, edge: float, text: str, x: Any) -> list[Any]:
    region = alt.Chart(values([{"limit": limit, "edge": edge, "text": f"limit {text}"}]))
    return [
        region.mark_rect(color=GREY, opacity=0.15).encode(x=x, x2="edge:Q"),
        region.mark_rule(color=LIMIT_COLOUR, strokeDash=[6, 4], strokeWidth=1.5).encode(x=x),
        region.mark_text(align="right", dx=-4, dy=-4, baseline="bottom", fontStyle="italic").encode(
            x=x, y=alt.value("height"), text="text:N"
        ),
    ]


def _point_layers(data: TradeOff, scale: int, edge: float, x: Any) -> list[Any]:
    precisions = list(dict.fromkeys(p.precision for p in data.points))
    y = alt.Y("samples_per_s:Q", title="samples per second", scale=from_zero(p.high for p in data.points))
    by_precision = colour(precisions, "precision")
    points = alt.Chart(values([_row(p, scale) for p in data.points])).encode(x=x, color=by_precision)
    layers = []
    if data.front:
        front = [{"peak": p / scale, "samples_per_s": rate} for p, rate in data.front]
        line = alt.Chart(values(front)).mark_line(interpolate="step-after", color=GREY, strokeWidth=1.5)
        layers.append(line.encode(x=x, y=y))
    layers += [
        points.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title="samples per second"), y2="high:Q"),
        points.mark_point(filled=True, size=70).encode(
            y=y,
            shape=shape(precisions, "precision"),
            opacity=alt.condition("datum.role === 'chosen' || datum.role === 'front'", alt.value(1), alt.value(0.65)),
            tooltip=tooltip(what="candidate", rate_text="samples/s", peak_text="peak", role="role"),
        ),
    ]
    chosen = next((p for p in data.points if p.role == "chosen"), None)
    return layers + (_chosen_layers(chosen, scale, edge, x, y) if chosen else [])


def _chosen_layers(chosen: TradeOffPoint, scale: int, edge: float, x: Any, y: Any) -> list[Any]:
    # The label goes to the side with more room, and is broken so that it fits a phone.
    leftwards = chosen.peak_bytes > edge / 2
    first, _, rest = chosen.label.removeprefix("micro-batch ").partition(", ")
    text = "\n".join(filter(None, ("chosen: " + first.partition(" accumulation")[0], rest)))
    ring = alt.Chart(values([_row(chosen, scale) | {"text": text}])).encode(x=x, y=y)
    return [
        ring.mark_point(size=260, strokeWidth=2, color="#000000", filled=False),
        ring.mark_text(
            align="right" if leftwards else "left",
            dx=-14 if leftwards else 14,
            dy=-14,
            lineBreak="\n",
            fontWeight="bold",
        ).encode(text="text:N"),
    ]


def _row(point: TradeOffPoint, scale: int) -> dict[str, object]:
    return asdict(point) | {
        "peak": point.peak_bytes / scale,
        "what": f"trial {point.trial}: {point.label}",
        "peak_text": format_bytes(point.peak_bytes),
        "rate_text": interval(point.samples_per_s, point.low, point.high),
    }


def _note(data: TradeOff, shown_limit: int | None) -> str:
    hidden = [f"{count} {state.replace('_', ' ')}" for state, count in data.failed.items()]
    if data.unplaced:
        hidden.append(f"{data.unplaced} without a measured peak")
    parts = [f"not shown: {', '.join(hidden)}"] if hidden else []
    if data.limit_bytes is not None and shown_limit is None:
        parts.append(f"limit: {format_bytes(data.limit_bytes)}, far to the right")
    return "; ".join(parts)
