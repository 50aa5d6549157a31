"""``report.html``: one file that shows a study and loads nothing.

Everything that comes from outside (names, reasons, commands) is escaped here; a content security policy that lists the
hashes of the page's own scripts holds even where an escape were forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from string import Template

import vl_convert

from autotune.core.study import Study
from autotune.report.charts import draw, study_charts, vega_lite_version
from autotune.report.page_tables import accumulation_html, trials_html
from autotune.report.page_text import config_html, facts_html, figures_html, reproduce_html, status_html, warnings_html

_ASSETS = Path(__file__).parent / "assets"
_CAPTIONS = {
    "pareto": "The line joins the trials that no other trial beats in both; bars are 95 % intervals of the median.",
    "throughput": "At the same global batch: a smaller micro-batch takes more accumulation steps.",
    "peak": "Highest bytes that the device's allocator held.",
    "loss-scale": "Updates with non-finite gradients are not applied; throughput counts applied updates only.",
    "timeline": "What each trial spent its time on.",
}


def report_page(study: Study) -> str:
    """Returns the page as HTML."""
    from autotune import __version__

    bundle = _closed(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vega_lite_version()))
    script = _closed(_asset("page.js"))
    charts = study_charts(study, "container")
    job = study.job
    return Template(_asset("page.html")).substitute(
        title=escape(f"{study.name}: autotune report"),
        css=_asset("page.css"),
        script_hashes=f"{_hash(bundle)} {_hash(script)}",
        over=escape(f"{job.workload.entry_point}, global batch {job.global_batch}, on {job.hardware.device}"),
        verdict=escape(study.verdict or "No trial was chosen."),
        status=status_html(study),
        figures=figures_html(study),
        warnings=warnings_html(study),
        charts=_charts_html(study, tuple(charts)),
        accumulation=accumulation_html(study),
        trials=trials_html(study),
        holds=facts_html(study),
        reproduce=reproduce_html(study),
        config=config_html(study),
        version=escape(__version__),
        specs=_json({name: _for_page(chart.to_dict()) for name, chart in charts.items()}),
        bundle=bundle,
        js=script,
    )


def _charts_html(study: Study, names: tuple[str, ...]) -> str:
    # Without scripts the same charts are there as pictures.
    pictures = study_charts(study)
    figures = []
    for name in names:
        data = base64.b64encode(draw(pictures[name], "svg")).decode()
        caption = escape(_CAPTIONS[name])
        wide = ' class="wide"' if name in ("pareto", "timeline") else ""
        figures.append(
            f'<figure{wide}><div class="chart" id="chart-{name}" role="group" aria-label="{caption}"></div>'
            f'<noscript><img alt="{caption}" src="data:image/svg+xml;base64,{data}"></noscript>'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return f'<section aria-label="Charts"><h2>Pictures</h2><div class="charts">{"".join(figures)}</div></section>'


def _for_page(spec: dict[str, object]) -> dict[str, object]:
    """The page's colours shine through, and the heading above the page is not said again in every chart."""
    title = spec["title"]
    assert isinstance(title, dict)
    lines = title["subtitle"][1:]
    shown = {**title, "subtitle": lines} if lines else {k: v for k, v in title.items() if k != "subtitle"}
    fit = {"type": "fit-x", "contains": "padding"}
    return {**spec, "background": "transparent", "autosize": fit, "title": shown}


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
