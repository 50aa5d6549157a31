"""The charts: valid descriptions, pictures that are pictures, the same values that were computed."""

import struct
import xml.etree.ElementTree as ElementTree

import pytest

from autotune.report.charts import draw, study_pictures, trade_off_picture
from tests.sample_studies import HOSTILE, empty_study, hopeless_study, rich_study

STUDIES = [rich_study(), empty_study(), hopeless_study(), rich_study(chosen=None, pareto=())]


def test_which_charts_there_are():
    names = [picture.name for picture in study_pictures(rich_study())]
    assert names == ["pareto", "throughput", "peak", "loss-scale", "timeline"]
    assert [p.name for p in study_pictures(hopeless_study())] == ["pareto", "timeline"]
    assert [p.name for p in study_pictures(empty_study())] == ["pareto"]


@pytest.mark.parametrize("study", STUDIES, ids=range(len(STUDIES)))
def test_png_and_svg(study):
    for picture in study_pictures(study):
        png = draw(picture, study, "png")
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", png[16:24])
        assert 1000 < width < 2000 and 200 < height < 2000, picture.name
        svg = draw(picture, study, "svg").decode()
        nodes = ElementTree.fromstring(svg).iter()
        texts = [node.text or "" for node in nodes if node.tag.endswith(("}text", "}tspan"))]
        assert picture.title in texts
        assert f"{HOSTILE}, global batch 256, CPU, 2 cores" in texts, "the user's text is text"


def test_the_chosen_trial_and_the_limit_are_labelled():
    svg = draw(trade_off_picture(rich_study()), rich_study(), "svg").decode()
    assert "chosen: 64 x 4" in svg and "fused, jitted" in svg and "limit 200 MiB" in svg


def test_a_limit_far_away_is_said_and_not_drawn():
    from dataclasses import replace

    study = rich_study()
    study = replace(study, job=replace(study.job, memory_limit_bytes=80 * 2**30))
    picture = trade_off_picture(study)
    assert "limit: 80.0 GiB, far to the right" in picture.note
    assert "limit 80" not in draw(picture, study, "svg").decode()


def test_what_is_not_shown_is_said():
    note = trade_off_picture(rich_study()).note
    assert note == (
        "not shown: 1 out of memory, 1 non finite, 1 crashed, 1 timed out, 1 invalid, 1 without a measured peak"
    )


def test_page_and_paper_are_one_description():
    study = rich_study()
    for picture in study_pictures(study):
        page, paper = picture.on_page(), picture.on_paper(study)
        assert page["layer"] == paper["layer"]
