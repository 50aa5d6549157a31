"""Progress: plain lines in a pipe, a live display on a real (pseudo) terminal."""

import io
import os
import pty
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from autotune.core.units import format_seconds
from autotune.report.terminal import Progress
from tests.sample_studies import rich_study

STUDY = rich_study()


class Stream(io.TextIOWrapper):
    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    def text(self) -> str:
        return self.buffer.getvalue().decode(self.encoding)


def play(progress: Progress) -> None:
    best = None
    with progress:
        progress.message("runs on the CPU (\x1b[31mred)")
        for record in STUDY.records[:6]:
            progress.trial_started(record.number, record.candidate, 12)
            progress.trial_phase("measure")
            if record.completed and (best is None or record.samples_per_s > best.samples_per_s):
                best = record
            progress.trial_finished(record, best)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_pipe_gets_one_plain_line_per_trial(encoding):
    stream = Stream(encoding)
    play(Progress(stream=stream))
    lines = stream.text().splitlines()
    spread = {"utf-8": "±1.0 %", "ascii": "+/-1.0 %"}[encoding]
    assert lines[0] == "runs on the CPU ([31mred)"
    assert lines[1] == (
        f"[1/12] trial 0  micro-batch 256 x 1 accumulation step: 4,000 samples/s {spread}, peak 180 MiB  (best so far)"
    )
    assert lines[2].endswith("(best so far)") and not lines[3].endswith("(best so far)")
    assert lines[5].startswith(
        "[5/12] trial 4  micro-batch 256 x 1 accumulation step, mixed_float16, loss scale 32768: out of"
    )
    assert len(lines) == 7 and "\x1b" not in stream.text()


def test_live_lines_show_candidate_best_time_and_what_is_left():
    now = 0.0
    progress = Progress(stream=Stream("utf-8"), budget_s=90.0, clock=lambda: now)
    assert progress.live_lines() == ["done     0 trials, -, about 1m 30s left"]
    first, second = STUDY.records[0], STUDY.records[1]
    progress.trial_started(0, first.candidate, 12)
    progress.trial_finished(first, first)
    now = 8.0
    progress.trial_started(1, second.candidate, 5)
    progress.trial_phase("warm_up")
    now = 13.0
    running, best, done = progress.live_lines()
    assert running == "running  trial 1: micro-batch 64 x 4 accumulation steps, fused, jitted  warm_up  5.00 s"
    assert best == "best     4,000 samples/s ±1.0 %, peak 180 MiB: micro-batch 256 x 1 accumulation step"
    assert done == f"done     1 of 5 trials, 13.0 s, about {format_seconds(4 * first.wall_s - 5)} left"
    progress.trial_started(2, second.candidate, 100)
    assert progress.live_lines()[2].endswith("about 1m 17s left"), "never more than the budget"


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.report.test_terminal import play
from autotune.report.terminal import Progress
play(Progress())
print("the end", file=sys.stderr)
"""


def on_a_terminal(**environment: str) -> str:
    """Runs the script with a pseudo terminal as standard error and returns what arrived there."""
    script = textwrap.dedent(SCRIPT).format(root=str(Path(__file__).parents[2]))
    parent, child = pty.openpty()
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stderr=child,
        stdin=child,
        stdout=subprocess.DEVNULL,
        env=variables | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"} | environment,
    )
    os.close(child)
    received = b""
    while True:
        ready, _, _ = select.select([parent], [], [], 60)
        try:
            chunk = os.read(parent, 65536) if ready else b""
        except OSError:  # the other end is closed
            chunk = b""
        if not chunk:
            break
        received += chunk
    os.close(parent)
    assert process.wait(60) == 0, received.decode(errors="replace")
    return received.decode(errors="replace")


def test_a_terminal_gets_a_live_display_and_keeps_the_lines():
    seen = on_a_terminal(PYTHONIOENCODING="utf-8")
    assert "\x1b[?25l" in seen and "\x1b[?25h" in seen, "the cursor is hidden, and comes back"
    assert "\x1b[1m" in seen and "\x1b[2m" in seen
    assert "running  trial 5" in seen and "4,000 samples/s ±1.0 %, peak 180 MiB  (best so far)" in seen
    assert "\x1b[31m" not in seen, "nothing of the user's text colours the terminal"
    assert seen.rstrip().endswith("the end")


def test_no_color():
    seen = on_a_terminal(NO_COLOR="1", PYTHONIOENCODING="utf-8")
    assert "running  trial 5" in seen
    assert not any(f"\x1b[{code}m" in seen for code in ("31", "32", "33", "36"))


def test_a_dumb_terminal_gets_plain_lines():
    seen = on_a_terminal(TERM="dumb", PYTHONIOENCODING="utf-8")
    assert "\x1b" not in seen and "[6/12] trial 5" in seen


def test_a_terminal_without_utf_8():
    seen = on_a_terminal(PYTHONIOENCODING="ascii")
    assert "+/-1.0 %" in seen and "?" not in seen.replace("\x1b[?25", "")
