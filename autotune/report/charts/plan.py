"""A plan's chart: peaks against usable memory for every GPU, and hours where they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import vl_convert

from autotune.core.plan.values import Row
from autotune.report.charts.parts import GREY, LIMIT_COLOUR, PALETTE, byte_unit, values
from autotune.report.charts.picture import vega_lite_version
from autotune.report.words import one_line

_WIDTH, _ROW, _LEAST = 560, 26, 80  # pixels


def plan_chart(title: str, rows: Sequence[Row], kind: Literal["png", "svg"]) -> bytes:
    """Returns the chart as a file's content; PNG at twice its size, for print."""
    spec = plan_spec(title, rows)
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())).encode()
    return bytes(vl_convert.vegalite_to_png(spec, vl_version=vega_lite_version(), scale=2))


def plan_spec(title: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the Vega-Lite description."""
    charts = [_memory(rows)]
    if any(row.hours for row in rows):
        charts.append(_hours(rows))
    heading = alt.TitleParams(one_line(title), anchor="start", fontSize=15)
    described: dict[str, Any] = (
        alt.vconcat(*charts)
        .properties(title=heading, background="white", padding=12)
        .configure_view(stroke=None)
        .to_dict()
    )
    return described


def _label(row: Row) -> str:
    return f"{row.count} x {row.gpu}" if row.count > 1 else row.gpu


def _places(rows: Sequence[Row]) -> Any:
    return alt.Y("gpu:N", title=None, sort=[_label(row) for row in rows], axis=alt.Axis(labelLimit=220))


def _size(rows: Sequence[Row]) -> dict[str, int]:
    return {"width": _WIDTH, "height": max(_LEAST, _ROW * len(rows))}


def _memory(rows: Sequence[Row]) -> Any:
    """On a logarithmic scale: one model's peak may be a thousandth of a GPU."""
    sizes = [row.usable_bytes for row in rows if row.usable_bytes]
    unit, scale = byte_unit(max(sizes, default=0))
    data = [
        {
            "gpu": _label(row),
            "usable": row.usable_bytes / scale if row.usable_bytes else None,
            "peak": row.peak_bytes.expected / scale if row.peak_bytes else None,
            "low": row.peak_bytes.low / scale if row.peak_bytes else None,
            "high": row.peak_bytes.high / scale if row.peak_bytes else None,
            "fits": "fits" if row.fits else "does not fit",
        }
        for row in rows
    ]
    title = f"memory ({unit}): forecast peak with its 90 % range; the bar marks what is usable"
    x = alt.X("usable:Q", title=title, scale=alt.Scale(type="log", padding=16, nice=False))
    base = alt.Chart(values(data)).encode(y=_places(rows))
    limits = base.mark_tick(color=GREY, thickness=3).encode(x=x)
    outcomes = ["fits", "does not fit"]
    colour = alt.Color("fits:N", title=None, scale=alt.Scale(domain=outcomes, range=[PALETTE[0], LIMIT_COLOUR]))
    shape = alt.Shape("fits:N", title=None, scale=alt.Scale(domain=outcomes, range=["circle", "cross"]))
    ranges = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", color=colour)
    points = base.mark_point(filled=True, size=60).encode(x="peak:Q", color=colour, shape=shape)
    return alt.layer(limits, ranges, points).properties(**_size(rows))


def _hours(rows: Sequence[Row]) -> Any:
    timed = [row for row in rows if row.hours]
    data = [
        {"gpu": _label(row), "hours": row.hours.expected, "low": row.hours.low, "high": row.hours.high}
        for row in timed
        if row.hours
    ]
    base = alt.Chart(values(data)).encode(y=_places(timed))
    points = base.mark_point(filled=True, size=60, color=PALETTE[2]).encode(
        x=alt.X("hours:Q", title="hours of the whole training, with their 90 % range")
    )
    ranges = base.mark_rule(strokeWidth=2, color=PALETTE[2]).encode(x="low:Q", x2="high:Q")
    return alt.layer(ranges, points).properties(**_size(timed))
