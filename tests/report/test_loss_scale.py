"""The loss-scale table and chart of a study whose initial scale was calibrated."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.loss_scale_choice import Calibration, ScaleRow
from autotune.report.chart_data import loss_scales
from autotune.report.charts import study_pictures
from autotune.report.loss_scale import loss_scale_html, loss_scale_table
from tests.sample_studies import rich_study

FOUND = Calibration(
    scale=0.125,
    largest_finite=1.0,
    backward_passes=21,
    rows=(
        ScaleRow(
            scale=0.125, role="chosen", underflow_share=0.0312, updates=60, updates_skipped=0, first_applied=1,
            final_scale=0.125,
        ),
        ScaleRow(scale=1.0, role="largest finite", underflow_share=0.0),
        ScaleRow(scale=32768.0, role="default", updates=60, updates_skipped=13, first_applied=14, final_scale=4.0),
    ),
)  # fmt: skip


def test_the_table_and_its_html():
    study = replace(rich_study(), loss_scale=FOUND)
    lines = loss_scale_table(study, encoding="utf-8").splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["0.125", "chosen", "3.1", "%", "0", "of", "60", "1", "0.125"],
        ["1", "largest", "finite", "0.0", "%", "not", "run", "-", "-"],
        ["32768", "default", "overflows", "13", "of", "60", "14", "4"],
    ]
    html = loss_scale_html(study)
    assert html.count("<tr>") == 4
    assert "<td class=number>13 of 60</td>" in html
    assert "21 backward passes" in html


def test_a_study_without_float16_has_none():
    assert loss_scale_table(rich_study()) is None
    assert loss_scale_html(rich_study()) == ""


def test_the_chart_shows_the_calibration_runs_too():
    without = loss_scales(rich_study())
    study = replace(rich_study(), loss_scale=FOUND)
    added = [p for p in loss_scales(study) if p not in without]
    assert [(p.label, p.initial_loss_scale, p.updates_skipped) for p in added] == [
        ("calibration: chosen", 0.125, 0),
        ("calibration: default", 32768.0, 13),
    ]
    picture = next(p for p in study_pictures(study) if p.name == "loss-scale")
    assert "calibration: default" in str(picture.on_page())
