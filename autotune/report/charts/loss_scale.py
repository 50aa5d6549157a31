"""Loss scale against skipped updates."""

from __future__ import annotations

from dataclasses import asdict

import altair as alt

from autotune.core.study import Study
from autotune.report.chart_data import loss_scales
from autotune.report.charts.parts import PALETTE, from_zero, powers, tooltip, values
from autotune.report.charts.picture import Picture
from autotune.report.words import share


def loss_scale_picture(study: Study) -> Picture | None:
    """The share of updates skipped by initial loss scale; None where nothing was run in float16."""
    points = loss_scales(study)
    if not points:
        return None
    rows = [
        asdict(point)
        | {
            "percent": 100 * point.skipped_share,
            "skipped": f"{point.updates_skipped} of {point.updates_measured} ({share(point.skipped_share)})",
            "underflow": share(point.underflow_share),
            "ended": "-" if point.final_loss_scale is None else f"{point.final_loss_scale:g}",
        }
        for point in points
    ]
    y = alt.Y("percent:Q", title="updates skipped (%)", scale=from_zero(100 * p.skipped_share for p in points))
    marks = (
        alt.Chart(values(rows))
        .mark_point(filled=True, size=80, color=PALETTE[0], opacity=0.8)
        .encode(
            x=alt.X("initial_loss_scale:Q", title="initial loss scale", scale=powers()),
            y=y,
            tooltip=tooltip(
                label="candidate",
                initial_loss_scale="started at",
                ended="ended at",
                skipped="skipped",
                underflow="underflow",
            ),
        )
    )
    return Picture(
        name="loss-scale",
        title="Loss scale against skipped updates",
        caption="Updates with non-finite gradients are not applied; throughput counts applied updates only.",
        body=alt.layer(marks),
    )
