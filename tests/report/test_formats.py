"""Every report format, of every table."""

import io
import json

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from autotune.report.compare_sheet import comparison_sheet
from autotune.report.formats import format_names, load_format
from autotune.report.frames import trials_frame
from autotune.report.sheet import TABLES, study_sheet
from tests.sample_studies import empty_study, hopeless_study, rich_study

STUDIES = [rich_study(), empty_study(), hopeless_study()]


def rendered(name, sheet) -> str:
    return load_format(name).render(sheet).decode()


def test_formats_are_those_of_the_contract():
    assert format_names() == ["csv", "html", "json", "latex", "markdown", "parquet", "table"]


@pytest.mark.parametrize("name", format_names())
@pytest.mark.parametrize("table", [None, *TABLES])
def test_every_format_renders_every_table_of_every_study(name, table):
    for study in STUDIES:
        assert load_format(name).render(study_sheet(study, table, phases=True))


@pytest.mark.parametrize("name", format_names())
def test_every_format_renders_a_comparison(name):
    assert load_format(name).render(comparison_sheet([rich_study(), hopeless_study(), rich_study()]))


def test_parquet_holds_the_table():
    content = load_format("parquet").render(study_sheet(rich_study()))
    assert_frame_equal(pd.read_parquet(io.BytesIO(content)), trials_frame(rich_study()))


def test_json_holds_every_table_with_null_for_missing():
    document = json.loads(rendered("json", study_sheet(rich_study())))
    assert document["schema_version"] == 1 and document["chosen"] == 1 and document["job"]["global_batch"] == 256
    assert len(document["trials"]) == 12 and [t["trial"] for t in document["pareto"]] == [3, 1, 2]
    assert document["trials"][4]["samples_per_s"] is None
    assert list(document["trials"][0]) == list(trials_frame(rich_study()).columns)
    assert document["accumulation"][3]["relative_samples_per_s"] == pytest.approx(5240.5 / 4000)


def test_json_of_an_infinite_figure_is_still_json():
    from autotune.core.study import Study
    from tests.sample_studies import completed, job

    record = completed(0, 64, 1.0, 1, precision="mixed_float16", final_loss_scale=float("inf"))
    document = json.loads(rendered("json", study_sheet(Study(name="s", job=job(), records=(record,)))))
    assert document["trials"][0]["final_loss_scale"] is None


def test_markdown_is_one_table_whose_cells_cannot_break_it():
    lines = rendered("markdown", study_sheet(rich_study())).splitlines()
    assert len(lines) == 2 + 12
    bars = {line.replace("\\|", "").count("|") for line in lines}
    assert len(bars) == 1 and "<script>" not in "\n".join(lines)
    assert "| 64 x 4 | float32 |" in lines[2] and "5,240" in lines[2]


def test_latex_is_one_tabular_with_escaped_text():
    text = rendered("latex", study_sheet(rich_study()))
    lines = text.splitlines()
    alignment = lines[0].removeprefix(r"\begin{tabular}{").removesuffix("}")
    assert set(alignment) == {"l", "r"} and lines[-1] == r"\end{tabular}"
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 13 and {row.replace(r"\&", "").count("&") for row in rows} == {len(alignment) - 1}
    assert r"jit\_compile" in text and r"1.0 \%" in text
    assert not [row for row in rows if row.startswith(("*", "["))], "a star after a line break is read as its variant"


def test_html_is_the_report_page():
    assert "report" in rendered("html", study_sheet(rich_study())) and 'id="trials-table"' in rendered(
        "html", study_sheet(rich_study())
    )


def test_html_of_a_comparison_is_escaped():
    text = rendered("html", comparison_sheet([rich_study(name="<script>a"), rich_study(name="b")]))
    assert "<script>" not in text and "&lt;script&gt;a" in text


def test_table_shows_trials_then_accumulation_then_the_verdict():
    text = rendered("table", study_sheet(rich_study(), width=80))
    assert (
        text.index("x full") < text.index("accumulation at the same global batch") < text.rindex("1.31x the throughput")
    )
    only = rendered("table", study_sheet(rich_study(), "accumulation"))
    assert only.startswith("precision      steps") and "verdict" not in only
    assert "warm up" in rendered("table", study_sheet(rich_study(), phases=True, width=120))
