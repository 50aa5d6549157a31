"""The charts as Altair descriptions: one for the page, PNG and SVG alike. One file per chart.

The values come from ``report.chart_data``; here they are only drawn.
"""

from __future__ import annotations

from typing import Literal

import vl_convert

from autotune.core.study import Study
from autotune.report.charts.loss_scale import loss_scale_picture
from autotune.report.charts.picture import Picture, vega_lite_version
from autotune.report.charts.scaling import peak_picture, throughput_picture
from autotune.report.charts.timeline import timeline_picture
from autotune.report.charts.trade_off import trade_off_picture

__all__ = ["Picture", "draw", "study_pictures", "trade_off_picture", "vega_lite_version"]


def study_pictures(study: Study) -> tuple[Picture, ...]:
    """Returns the charts that have something to show; the trade-off chart is always the first."""
    optional = (throughput_picture(study), peak_picture(study), loss_scale_picture(study), timeline_picture(study))
    return (trade_off_picture(study), *(picture for picture in optional if picture is not None))


def draw(picture: Picture, study: Study, kind: Literal["png", "svg"]) -> bytes:
    """Returns a picture with its heading, as a file's content; PNG at twice its size, for print."""
    spec = picture.on_paper(study)
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())).encode()
    return bytes(vl_convert.vegalite_to_png(spec, vl_version=vega_lite_version(), scale=2))
