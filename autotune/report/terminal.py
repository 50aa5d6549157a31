"""Progress of a running study: a live display on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from autotune.core.candidate import Candidate
from autotune.core.trial import TrialRecord
from autotune.core.units import format_seconds
from autotune.report.words import encodable, measured_words, one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

# A refresh costs about a millisecond, on a machine that is measuring.
_REFRESH_PER_S = 2


class Progress:
    """Shows the running candidate, the best so far, the time and the trials left.

    Args:
        budget_s: wall-clock budget of the study; the time left never exceeds it.
        stream: where to write; standard error by default.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        *,
        budget_s: float | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._stream = stream or sys.stderr
        self._budget_s = budget_s
        self._started = clock()
        self._trial_started = self._started
        self._running: str | None = None
        self._number = 0
        self._phase = ""
        self._total: int | None = None
        self._walls: list[float] = []
        self._best: TrialRecord | None = None
        self._console: Console | None = None
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
            if console.is_terminal and not console.is_dumb_terminal:
                self._console = console
                self._live = Live(self, console=console, refresh_per_second=_REFRESH_PER_S, transient=True)
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def trial_started(self, number: int, candidate: Candidate, total: int | None) -> None:
        """Says which candidate runs now.

        Args:
            number: the trial's number.
            candidate: what it runs.
            total: trials that this run of the study will do at most; None where only the budget ends it.
        """
        self._number, self._running, self._total, self._phase = number, candidate.describe(), total, ""
        self._trial_started = self._clock()
        if self._live is not None:
            self._live.refresh()

    def trial_phase(self, text: str) -> None:
        """Says what the running trial does now (``build``, ``trace``, ``measure`` ...); not shown in a pipe."""
        self._phase = one_line(text)

    def trial_finished(self, record: TrialRecord, best: TrialRecord | None) -> None:
        """Writes one line for a finished trial.

        Args:
            record: the trial.
            best: the best trial so far, this one included; None while none has completed.
        """
        self._best, self._running = best, None
        self._walls.append(record.wall_s)
        count = f"[{len(self._walls)}/{self._total}] " if self._total is not None else ""
        mark = "  (best so far)" if best is not None and best.number == record.number else ""
        line = f"{count}trial {record.number}  {record.candidate.describe()}: {measured_words(record)}{mark}"
        self._write(line, "bold" if mark else "" if record.completed else "dim")

    def message(self, text: str) -> None:
        """Writes one line about the study as a whole."""
        self._write(one_line(text), "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The live lines, as they are at this moment."""
        from rich.text import Text

        for line in self.live_lines():
            yield Text(encodable(line, console.encoding), no_wrap=True, overflow="ellipsis")

    def live_lines(self) -> list[str]:
        """Returns the lines of the live display, as of now."""
        now = self._clock()
        lines = []
        if self._running is not None:
            phase = f"  {self._phase}" if self._phase else ""
            seconds = format_seconds(max(0.0, round(now - self._trial_started)) or None)
            lines.append(f"running  trial {self._number}: {self._running}{phase}  {seconds}")
        if self._best is not None:
            lines.append(f"best     {measured_words(self._best)}: {self._best.candidate.describe()}")
        lines.append(f"done     {self._count()}, {format_seconds(round(now - self._started) or None)}{self._left(now)}")
        return lines

    def _count(self) -> str:
        done = len(self._walls)
        of = f" of {self._total}" if self._total is not None else ""
        return f"{done}{of} trials"

    def _left(self, now: float) -> str:
        left = []
        if self._total is not None and self._walls:
            to_come = max(0, self._total - len(self._walls))
            spent = now - self._trial_started if self._running is not None else 0.0
            left.append(max(0.0, to_come * sum(self._walls) / len(self._walls) - spent))
        if self._budget_s is not None:
            left.append(max(0.0, self._budget_s - (now - self._started)))
        return f", about {format_seconds(min(left))} left" if left and min(left) >= 1 else ""

    def _write(self, line: str, style: str) -> None:
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text(encodable(line, self._console.encoding), style=style), soft_wrap=True)
        else:
            print(encodable(line, self._stream.encoding), file=self._stream, flush=True)
