"""Tables for people: width, order, marks, encodings."""

import pytest
from rich.cells import cell_len

from autotune.core.study import Study
from autotune.report.text import accumulation_table, phases_table, trade_off_table
from autotune.report.words import encodable, factor, measured_words, one_line, scale_words, share
from tests.sample_studies import completed, empty_study, hopeless_study, job, rich_study

TABLES = [trade_off_table, accumulation_table, phases_table]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("study", [rich_study(), hopeless_study(), empty_study()], ids=lambda s: s.name)
def test_fits_the_width_in_every_encoding(study, table, encoding, width):
    text = table(study, width, encoding=encoding)
    text.encode(encoding)
    body = text.split("\n\n")[1 if table is trade_off_table and study.records else 0]
    assert max(cell_len(line) for line in body.splitlines()) <= width


def lines_of(width: int) -> list[str]:
    """The table alone: its header, then one line per trial."""
    return table_of(trade_off_table(rich_study(), width, encoding="utf-8"))


def table_of(text: str) -> list[str]:
    return text.split("\n\n")[1].splitlines()


def test_order_and_marks():
    numbers = [line[:5].strip(">* ") for line in lines_of(120)[1:]]
    assert numbers == ["1", "2", "11", "0", "3", "10", "9", "4", "5", "6", "7", "8"]
    assert lines_of(120)[1].startswith(">* 1") and lines_of(120)[2].startswith(" * 2")


def test_80_columns_keep_what_matters():
    header, best = lines_of(80)[0], lines_of(80)[1]
    assert header.split("  ")[-1].strip() == "% full"
    for word in ("micro x steps", "precision", "compiled", "samples/s", "x full", "peak"):
        assert word in header
    assert "±" not in header and "scale" not in header, "the least important columns go first"
    for word in ("64 x 4", "float32", "fused jit", "5,240", "1.31", "76.0 MiB", "42"):
        assert word in best


def test_a_wide_terminal_shows_everything():
    assert all(word in lines_of(200)[0] for word in ("±", "scale", "% full"))
    assert "2^15" in "\n".join(lines_of(200))


def test_failures_say_why_on_one_line_without_control_characters():
    text = trade_off_table(rich_study(), 200, encoding="utf-8")
    assert 'out of memory: needs more than 200 MiB (Allocator ran out; "quoted", second line)' in text
    assert "\x1b" not in text and "crashed: SIGSEGV in <script>alert('x')</script> [31mred[0m [bold]" in text


def test_remarks_on_completed_trials_are_below():
    text = trade_off_table(rich_study(), 80, encoding="utf-8")
    assert text.endswith("timings not steady: trial 3\n3 of 24 updates skipped: trial 9")


def test_colour_marks_the_chosen_and_the_failed():
    lines = table_of(trade_off_table(rich_study(), 80, color=True, encoding="utf-8"))
    assert lines[1].startswith("\x1b[1m") and lines[1].endswith("\x1b[0m")
    assert sum(line.startswith("\x1b[2m") for line in lines) == 5
    plain = lines_of(80)
    assert lines[1].removeprefix("\x1b[1m").removesuffix("\x1b[0m") == plain[1]


def test_columns_that_say_nothing_are_left_out():
    records = (completed(0, 256, 10.0, 100), completed(1, 64, 9.0, 50))
    header = trade_off_table(Study(name="s", job=job(), records=records), 200, encoding="utf-8").splitlines()[2]
    assert "precision" not in header and "replicas" not in header and "scale" not in header


def test_a_loop_of_the_users_own_has_no_compilation():
    own = {"precision": None, "execution": None, "jit_compile": None, "recompute": None}
    text = trade_off_table(Study(name="s", job=job(), records=(completed(0, 64, 9.0, 50, **own),)), encoding="utf-8")
    assert "compiled" not in text


def test_nothing_run():
    assert trade_off_table(empty_study()) == "no trial was run"


def test_words():
    assert [share(v) for v in (0.418, 0.0081, 1.5, None)] == ["42 %", "0.8 %", "150 %", "-"]
    assert [factor(v) for v in (1.3141, None)] == ["1.31x", "-"]
    assert [scale_words(v) for v in (32768.0, 0.125, 3.0, None)] == ["2^15", "2^-3", "3", "-"]
    assert one_line("a\n\tb\x1b[31m\u202ec") == "a b[31mc"
    assert encodable("±1 × 2 … é", "ascii") == "+/-1 x 2 ... \\xe9"
    assert encodable("±", "utf-8") == "±" and encodable("±", None) == "+/-" and encodable("±", "no-such") == "+/-"


def test_a_trial_in_words():
    study = rich_study()
    assert measured_words(study.records[1]) == "5,240 samples/s ±1.0 %, peak 76.0 MiB"
    assert measured_words(study.records[10]) == "1,100 samples/s ±1.0 %"
    assert measured_words(study.records[7]) == "timed out (not done after 600 s)"


def test_a_global_batch_that_was_searched_is_shown_as_a_range():
    axes = {"global_batch": ("1024", "256", "512"), "micro_batch": ("256",)}
    study = rich_study(job=job(axes=axes))
    assert "global batch 256 to 1024," in trade_off_table(study, width=200)
