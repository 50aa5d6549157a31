"""A loop of the user's own (``make_loop``), in any framework."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from autotune.core.peaks import FIRST_WINDOW
from autotune.core.trial import PassKind, TrialSpec
from autotune.worker.asked import check_policy, check_reads
from autotune.worker.conduct import SpanOf
from autotune.worker.loops import Loop, OwnLoop, Update, read
from autotune.worker.timing import give_up_if_hopeless
from autotune.worker.tracked import TrackedSettings, reads


class OwnSubject:
    """What ``make_loop(settings)`` returns.

    Args:
        make_loop: the user's function.
        spec: the trial.
    """

    def __init__(self, make_loop: Callable[[Any], Any], spec: TrialSpec) -> None:
        self._make_loop = make_loop
        self._candidate = spec.candidate
        self.input_bytes: int | None = None  # not told apart from the rest
        self._settings = TrackedSettings.of(spec.candidate.settings(seed=spec.seed))

    def build(self, kind: PassKind) -> Loop:
        """Calls the user's function; the loop is the same for every kind of pass."""
        self._made = self._make_loop(self._settings)
        self._loop = OwnLoop(self._made)
        return self._loop

    def exercise(
        self, windows: int, give_up_update_s: float | None, span: SpanOf, peak: Callable[[], int | None]
    ) -> list[Update]:
        """Runs updates."""
        with span(FIRST_WINDOW):
            results = [read(self._loop.update())]
        took = []
        for number in range(windows - 1):
            started = time.perf_counter()
            # Names of their own: what goes into a user's window may differ, so none is a repeat of another.
            with span(f"window {number + 2}"):
                results.append(read(self._loop.update()))
            took.append(time.perf_counter() - started)
        give_up_if_hopeless(min(took, default=0.0), give_up_update_s)
        return results

    def again(self) -> Callable[[], object]:
        """One more update."""
        return self._loop.update

    def effective(self) -> tuple[dict[str, str], list[str]]:
        """Checks that every searched axis was read, and the precision where Keras is used."""
        warnings = check_reads(self._candidate, self._settings, reads(self._settings))
        found, more = check_policy(self._candidate, self._made)
        return found, warnings + more
