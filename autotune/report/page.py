"""``report.html``: one file that shows a study and loads nothing.

Everything that comes from outside (names, reasons, commands) is escaped here; a content security policy that lists the
hashes of the page's own scripts holds even where an escape were forgotten.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from html import escape
from pathlib import Path
from string import Template

import vl_convert

from autotune.core.study import Study
from autotune.report.charts import Picture, draw, study_pictures, vega_lite_version
from autotune.report.loss_scale import loss_scale_html
from autotune.report.page_tables import accumulation_html, trials_html
from autotune.report.page_text import config_html, facts_html, figures_html, reproduce_html, status_html, warnings_html

_LARGE_SVG = 200_000
_ASSETS = Path(__file__).parent / "assets"


def report_page(study: Study) -> str:
    """Returns the page as HTML."""
    from autotune import __version__

    bundle = _bundle()
    script = _closed(_asset("page.js"))
    pictures = study_pictures(study)
    job = study.job
    return Template(_asset("page.html")).substitute(
        title=escape(f"{study.name}: autotune report"),
        css=style_sheet(),
        script_hashes=f"{_hash(bundle)} {_hash(script)}",
        over=escape(f"{job.workload.entry_point}, {job.batch_text}, on {job.hardware.device}"),
        verdict=escape(study.verdict or "No trial was chosen."),
        status=status_html(study),
        figures=figures_html(study),
        warnings=warnings_html(study),
        charts="".join(_figure_html(picture, study) for picture in pictures),
        accumulation=accumulation_html(study) + loss_scale_html(study),
        trials=trials_html(study),
        holds=facts_html(study),
        reproduce=reproduce_html(study),
        config=config_html(study),
        version=escape(__version__),
        specs=_json({picture.name: picture.on_page() for picture in pictures}),
        bundle=bundle,
        js=script,
    )


def style_sheet() -> str:
    """Returns the page's style sheet, which other pages may share."""
    return _asset("page.css")


def _figure_html(picture: Picture, study: Study) -> str:
    title, caption = escape(picture.title), escape(picture.caption)
    note = f" <em>{escape(picture.note.capitalize())}.</em>" if picture.note else ""
    return (
        f"<figure{' class=wide' if picture.wide else ''}><h3>{title}</h3>"
        f'<div class="chart" id="chart-{picture.name}" role="group" aria-label="{title}"></div>'
        f'<noscript><img alt="{title}" src="{_still(picture, study)}"></noscript>'
        f"<figcaption>{caption}{note}</figcaption></figure>"
    )


def _still(picture: Picture, study: Study) -> str:
    """The chart for a reader without scripts, as a data URL: SVG, unless many marks make that the larger one."""
    kind, content = "svg+xml", draw(picture, study, "svg")
    if len(content) > _LARGE_SVG:
        kind, content = "png", draw(picture, study, "png")
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


@functools.cache
def _bundle() -> str:
    """The drawing library as one script; it needs no network (about a second to put together)."""
    return _closed(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vega_lite_version()))


def _json(value: object) -> str:
    """JSON for a script element: no ``<`` may end the element early."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _closed(script: str) -> str:
    """A script whose strings cannot end its element early."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
