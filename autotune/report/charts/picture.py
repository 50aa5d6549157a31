"""A chart without its frame, and the two frames it can take: on paper (PNG, SVG) and on the report page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from autotune.core.study import Study
from autotune.report.words import one_line

_PAPER_WIDTH = 640


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart and the words around it.

    Attributes:
        name: for file names and identifiers.
        title: what it shows.
        note: what a reader must know about this very study (trials that are not shown ...); may be empty.
        caption: how to read it.
        body: the Altair chart, with neither size nor title.
        height: pixels of the plot.
        wide: takes the full width of the page.
    """

    name: str
    title: str
    note: str = ""
    caption: str
    body: Any
    height: int = 340
    wide: bool = False

    def on_paper(self, study: Study) -> dict[str, Any]:
        """Returns the Vega-Lite description for a picture that stands alone: with a heading, on white."""
        job = study.job
        entry, device = one_line(job.workload.entry_point), one_line(job.hardware.device)
        lines = [f"{entry}, {job.batch_text}, {device}", self.note]
        heading = alt.TitleParams(
            self.title, subtitle=[line for line in lines if line], anchor="start", fontSize=15, subtitleFontSize=12
        )
        chart = self.body.properties(
            width=_PAPER_WIDTH, height=self.height, title=heading, background="white", padding=12
        )
        return _described(chart, legend_columns=3)

    def on_page(self) -> dict[str, Any]:
        """Returns the description for the page, which says title and notes itself: as wide as its place, no ground."""
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        chart = self.body.properties(
            width="container", height=self.height, background="transparent", autosize=fit, padding=4
        )
        return _described(chart, legend_columns=2)


def vega_lite_version() -> str:
    """Returns the Vega-Lite version of the descriptions, as ``vl_convert`` names it."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def _described(chart: Any, legend_columns: int) -> dict[str, Any]:
    described: dict[str, Any] = (
        chart.configure_axis(labelFontSize=12, titleFontSize=12, gridOpacity=0.5)
        .configure_legend(
            labelFontSize=12,
            titleFontSize=12,
            symbolOpacity=1,
            orient="bottom",
            direction="vertical",
            columns=legend_columns,
            labelLimit=220,
        )
        .configure_view(stroke=None)
        .to_dict()
    )
    return described
