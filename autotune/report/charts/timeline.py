"""When each trial ran, and what it spent its time on."""

from __future__ import annotations

from dataclasses import asdict

import altair as alt

from autotune.core.study import Study
from autotune.core.units import format_seconds
from autotune.report.chart_data import timeline
from autotune.report.charts.parts import GREY, PALETTE, tooltip, values
from autotune.report.charts.picture import Picture

# Two more than elsewhere, for there are more phases than programs; grey is left to what no phase accounts for.
_COLOURS = (*(c for c in PALETTE if c != GREY), "#F0E442", "#882255")
_OTHER = "#BBBBBB"
_SHORTEST, _TALLEST, _PER_TRIAL = 80, 640, 18  # pixels


def timeline_picture(study: Study) -> Picture | None:
    """One bar per phase on a common time axis; None where no trial was run."""
    data = timeline(study)
    if not data.bars:
        return None
    phases = list(dict.fromkeys(bar.phase for bar in data.bars if bar.phase != "other"))
    rows = [asdict(bar) | {"seconds": format_seconds(bar.end_s - bar.start_s)} for bar in data.bars]
    colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(phases))]
    scale = alt.Scale(domain=[*phases, "other"], range=[*colours, _OTHER])
    bars = (
        alt.Chart(values(rows))
        .mark_bar()
        .encode(
            x=alt.X("start_s:Q", title="seconds since the first trial started"),
            x2="end_s:Q",
            y=alt.Y("trial:O", title="trial", axis=alt.Axis(labelOverlap=True)),
            color=alt.Color("phase:N", title="phase", scale=scale),
            tooltip=tooltip(trial="trial", state="state", phase="phase", seconds="time"),
        )
    )
    layers = [bars]
    if data.pauses:
        pauses = alt.Chart(values([{"at": at} for at in data.pauses]))
        layers.append(pauses.mark_rule(strokeDash=[2, 3], color=GREY, strokeWidth=2).encode(x="at:Q"))
    return Picture(
        name="timeline",
        title="Study timeline",
        note="dotted: the study stood still, and that time is left out" if data.pauses else "",
        caption="What each trial spent its time on.",
        body=alt.layer(*layers),
        height=max(_SHORTEST, min(_TALLEST, _PER_TRIAL * len(study.records))),
        wide=True,
    )
