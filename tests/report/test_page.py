"""The report page as text: what is in it, and that everything from outside is escaped."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from autotune.config import TunedConfig
from autotune.core.tuned import Hardware, WorkloadId
from autotune.report.page import report_page
from tests.sample_studies import HOSTILE, empty_study, hopeless_study, job, measured, rich_study


class Elements(HTMLParser):
    """All elements, attributes and texts of a page; scripts and styles apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.stack: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()

    def handle_data(self, data):
        if self.stack == ["script"]:
            self.scripts.append(data)
        elif not self.stack:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def elements(study) -> Elements:
    return Elements(report_page(study))


def test_verdict_first_then_everything_else():
    found = elements(rich_study())
    headings = [tag for tag, _ in found.tags if tag in ("h1", "h2")]
    assert headings[0] == "h1" and headings.count("h1") == 1
    for text in (
        "fused, jitted: 1.31x the throughput of one full batch at 42 % of its peak memory",
        "7 of 12 trials completed; all 12 trials were run; confirmed by a longer run; memory limit 200 MiB.",
        "out of memory needs more than 200 MiB",
        "the CPU is shared with other processes",
        "Example CPU",
        "2.21.0",
        "autotune tune 'train \"<script>.py' --global-batch 256 --seed 1",
        "trial 0, no accumulation",
    ):
        assert text in found.text, text


def test_tuned_config_can_be_copied_from_it(tmp_path):
    page = report_page(rich_study())
    quoted = re.search(r'<pre id="config-text" tabindex="0">(.*?)</pre>', page, re.DOTALL)[1]
    import html

    path = tmp_path / "tuned.toml"
    path.write_text(html.unescape(quoted), encoding="utf-8")
    assert TunedConfig.load(path, check=False) == TunedConfig.from_study(rich_study())


def test_what_the_user_wrote_is_text():
    found = elements(rich_study())
    scripts = [attributes for tag, attributes in found.tags if tag == "script"]
    assert len(scripts) == 3 and len(found.scripts) == 3
    assert not [tag for tag, _ in found.tags if tag in ("b", "iframe", "object", "link", "base", "form")]
    assert all(a["src"].startswith("data:image/svg+xml;base64,") for tag, a in found.tags if tag == "img")
    assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]
    assert HOSTILE in found.text and "another process <b>on</b> the device" in found.text


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "</pre></title>"]
)
def test_every_field_from_outside_is_escaped(evil):
    study = rich_study(
        name=evil,
        verdict=evil,
        command=evil,
        stop_reason=evil,
        warnings=(evil,),
        job=job(
            hardware=Hardware(device=evil, kind="cpu", cpu=evil, driver_version=evil),
            workload=WorkloadId(entry_point=evil, source_hash=evil, kind=evil),
            axes={evil: (evil,)},
        ),
    )
    found, plain = elements(study), elements(rich_study())
    assert [tag for tag, _ in found.tags if tag in ("script", "img", "pre", "title")] == [
        tag for tag, _ in plain.tags if tag in ("script", "img", "pre", "title")
    ]
    assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]


def test_nothing_is_loaded_and_only_our_scripts_may_run():
    page = report_page(rich_study())
    found = Elements(page)
    assert not [a for _, a in found.tags if "href" in a and not a["href"].startswith("#")]
    assert not [a for tag, a in found.tags if tag in ("script", "link") and ("src" in a or "href" in a)]
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and a.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy
    allowed = re.search(r"script-src ([^;]*)", policy)[1].split()
    executable = [s for s in found.scripts if not s.startswith("{")]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in executable]
    assert sorted(allowed) == sorted(hashes) and len(hashes) == 2


def test_chart_descriptions_are_json_that_cannot_end_their_element():
    found = elements(rich_study())
    data = next(s for s in found.scripts if s.startswith("{"))
    assert "<" not in data
    specs = json.loads(data)
    assert list(specs) == ["pareto", "throughput", "peak", "loss-scale", "timeline"]
    assert all(spec["width"] == "container" for spec in specs.values())


@pytest.mark.parametrize(
    "study", [empty_study(), hopeless_study(), rich_study(chosen=None, verdict=None)], ids=lambda s: s.name
)
def test_studies_without_a_choice(study):
    found = elements(study)
    assert "No trial was chosen." in found.text and "Tuned config" not in found.text


def test_confirmed_figures_go_before_those_of_the_search():
    text = elements(rich_study(confirmation=measured(5000.0))).text
    assert "Throughput, confirmed 5,000 samples/s" in text and "Throughput against a full batch" not in text


def test_file_stays_small():
    assert len(report_page(rich_study()).encode()) < 1_500_000
