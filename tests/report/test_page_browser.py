"""The report page in a real Chromium, from ``file://`` and without a network."""

import re
import shutil
from dataclasses import replace

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from autotune.core.outcome import State
from autotune.report.page import report_page
from tests.sample_studies import MIB, completed, failed, rich_study

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "rich.html").write_text(report_page(rich_study()), encoding="utf-8")
    (folder / "many.html").write_text(report_page(many_trials()), encoding="utf-8")
    return folder


def many_trials():
    records = []
    for i in range(500):
        scale = {"precision": "mixed_float16", "initial_loss_scale": 2.0 ** (i % 30)} if i % 3 == 0 else {}
        if i % 7 == 0:
            records.append(failed(i, 1 + i % 256, State.OUT_OF_MEMORY, f"needs more than {i} MiB", **scale))
        else:
            size = 1 + i % 256
            records.append(completed(i, size, 1000.0 + 7 * i, (40 + size) * MIB, jit_compile=i % 2 == 0, **scale))
    return replace(rich_study(), name="many", records=tuple(records), pareto=(1, 2, 3), chosen=3)


def open_page(browser, path, *, width=1280, dark=False, media=""):
    browser.get_log("browser")
    browser.get_log("performance")
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features, "media": media})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(path.as_uri())
    charts = len(browser.find_elements(By.CSS_SELECTOR, ".chart"))
    WebDriverWait(browser, 60).until(lambda b: len(b.find_elements(By.CSS_SELECTOR, ".chart svg")) == charts)


def shown(browser) -> list[str]:
    """Numbers of the visible trials, top to bottom."""
    rows = "[...document.querySelectorAll('#trials-table tbody tr')]"
    return browser.execute_script(f"return {rows}.filter(r => !r.hidden).map(r => r.cells[0].textContent)")


def header(browser, name):
    heads = browser.find_elements(By.CSS_SELECTOR, "#trials-table th button")
    return next(h for h in heads if h.text.split(" ")[0] == name)


@pytest.mark.parametrize("name", ["rich.html", "many.html"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_loads_without_console_message_request_or_sideways_scrolling(browser, pages, name, width, dark):
    open_page(browser, pages / name, width=width, dark=dark)
    assert browser.get_log("browser") == []
    requests = re.findall(
        r'"url\\?":\\?"((?!file:|data:|about:|chrome)[a-z]+:[^"\\]*)', str(browser.get_log("performance"))
    )
    assert requests == []
    inner, scroll = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert scroll <= inner == width


def test_what_the_user_wrote_never_runs(browser, pages):
    open_page(browser, pages / "rich.html")
    body = browser.find_element(By.TAG_NAME, "body").text
    assert 'train "<script>alert(1)</script>" & co.py' in body and "<img src=x onerror=alert(1)>" in body
    assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    # Not even a script put into the page later: the policy knows the page's own by their hashes.
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
    )
    assert browser.execute_script("return window.ran") is None


def test_tooltips_are_text(browser, pages):
    open_page(browser, pages / "rich.html")
    mark = browser.find_element(
        By.CSS_SELECTOR, "#chart-pareto svg .mark-symbol.role-mark path[aria-label*='candidate']"
    )
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    webdriver.ActionChains(browser).move_to_element(mark).perform()
    tip = WebDriverWait(browser, 20).until(lambda b: b.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible"))
    assert "candidate" in tip.text and "samples/s" in tip.text


def test_sorting_by_mouse_and_keyboard(browser, pages):
    open_page(browser, pages / "rich.html")
    assert shown(browser) == [str(i) for i in range(12)]
    header(browser, "samples/s").click()
    assert shown(browser)[:7] == ["9", "10", "3", "0", "11", "1", "2"]
    header(browser, "samples/s").send_keys(Keys.ENTER)
    assert shown(browser)[:7] == ["1", "2", "11", "0", "3", "10", "9"], "largest first"
    assert shown(browser)[7:] == ["4", "5", "6", "7", "8"], "what was not measured stays last"
    sort = [h.get_attribute("aria-sort") for h in browser.find_elements(By.CSS_SELECTOR, "#trials-table th")]
    assert sort.count("descending") == 1 and len([s for s in sort if s]) == 1
    header(browser, "precision").send_keys(Keys.SPACE)
    assert set(shown(browser)[-5:]) <= {"4", "5", "9", "10"} | set(shown(browser))


def test_numbers_sort_as_numbers(browser, pages):
    open_page(browser, pages / "rich.html")
    header(browser, "micro-batch").click()
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('#trials-table tbody tr')].map(r => Number(r.cells[1].textContent))"
    )
    assert sizes == sorted(sizes) and sizes[0] == 16 and sizes[-1] == 256


def test_filtering(browser, pages):
    open_page(browser, pages / "rich.html")
    count = browser.find_element(By.ID, "filter-count")
    assert count.text == "12 of 12 trials"
    search = browser.find_element(By.ID, "filter-text")
    search.send_keys("float16 32768")
    assert shown(browser) == []
    search.clear()
    search.send_keys("FLOAT16 2^15")
    assert shown(browser) == ["4", "9"] and count.text == "2 of 12 trials"
    search.clear()
    search.send_keys(" ", Keys.BACKSPACE)
    Select(browser.find_element(By.ID, "filter-state")).select_by_visible_text("crashed")
    assert shown(browser) == ["6"]
    Select(browser.find_element(By.ID, "filter-state")).select_by_visible_text("all")
    browser.find_element(By.ID, "filter-front").send_keys(Keys.SPACE)
    assert shown(browser) == ["1", "2", "3"]


def test_everything_that_acts_is_reached_by_keyboard(browser, pages):
    open_page(browser, pages / "rich.html")
    reached = []
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            browser.execute_script(
                "const e = document.activeElement; return e.id || e.className || e.textContent.trim()"
            )
        )
    for place in ("skip", "filter-text", "filter-state", "filter-front", "trial", "samples/s", "command-text", "copy"):
        assert place in reached, place
    names = browser.execute_script("return [...document.querySelectorAll('th button')].map(b => b.textContent)")
    assert all(names)


def test_copy_buttons_copy_or_select(browser, pages):
    open_page(browser, pages / "rich.html")
    button = browser.find_element(By.CSS_SELECTOR, "button.copy[data-of='config-text']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    WebDriverWait(browser, 20).until(lambda _: button.text != "Copy")
    assert button.text in ("Copied", "Selected: press Ctrl-C")
    assert browser.execute_script("return getSelection().toString()").startswith("schema_version = 1")


def luminance(browser, script: str) -> float:
    colour = browser.execute_script(script)
    parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("dark", "media", "ground_is_light"), [(False, "", True), (True, "", False), (True, "print", True)]
)
def test_text_of_page_and_charts_stands_out_in_light_dark_and_print(browser, pages, dark, media, ground_is_light):
    open_page(browser, pages / "rich.html", dark=dark, media=media)
    ground = luminance(browser, "return getComputedStyle(document.body).backgroundColor")
    card = luminance(browser, "return getComputedStyle(document.querySelector('figure')).backgroundColor")
    assert (ground > 0.5) == ground_is_light
    texts = [
        luminance(browser, "return getComputedStyle(document.body).color"),
        luminance(browser, "return getComputedStyle(document.querySelector('figcaption')).color"),
        luminance(browser, "return getComputedStyle(document.querySelector('.chart svg .role-axis-title text')).fill"),
        luminance(browser, "return getComputedStyle(document.querySelector('.chart svg .role-axis-label text')).fill"),
    ]
    for text in texts:
        light, low = max(card, text), min(card, text)
        assert (light + 0.05) / (low + 0.05) >= 4.5, "WCAG's contrast for text"


def test_500_trials_can_be_sorted_and_filtered(browser, pages):
    """Every header twice and three filters, all within the driver's limit for one script."""
    open_page(browser, pages / "many.html")
    assert len(shown(browser)) == 500
    browser.set_script_timeout(20)
    counts = browser.execute_script("""
        for (const button of document.querySelectorAll('#trials-table th button')) { button.click(); button.click(); }
        const input = document.getElementById('filter-text');
        return ['memory', 'no such word', ''].map((text) => {
            input.value = text;
            input.dispatchEvent(new Event('input'));
            return document.getElementById('filter-count').textContent;
        });""")
    assert counts == ["72 of 500 trials", "0 of 500 trials", "500 of 500 trials"]
