"""How long a trial will take: mostly building and compiling, so it depends on the program more than on the batch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from autotune.core.candidate import Candidate
from autotune.core.outcome import State
from autotune.core.trial import TrialRecord

OUT_OF_MEMORY_S = 12.0  # the allocator retries for 10 s before it gives up


class CostModel:
    """Expected seconds of a trial, scaled to what the trials so far have taken.

    Args:
        records: trials so far.
    """

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        # An out-of-memory trial took the allocator's retries, not the program's time.
        timed = [r for r in records if r.state is not State.OUT_OF_MEMORY and r.wall_s > 0]
        ratios = [(program(r.candidate), r.wall_s / _relative(r.candidate)) for r in timed]
        self._scale = statistics.median(ratio for _, ratio in ratios) if ratios else 0.0
        self._own: dict[tuple[object, ...], float] = {}
        for key in {key for key, _ in ratios}:
            self._own[key] = statistics.mean(ratio for k, ratio in ratios if k == key)

    def seconds(self, candidate: Candidate) -> float:
        """Expected seconds of a trial; 0 while nothing was timed."""
        return _relative(candidate) * self._own.get(program(candidate), self._scale)


def program(candidate: Candidate) -> tuple[object, ...]:
    """What candidates must share to run the same program on other sizes; at one step the execution does not count."""
    execution = candidate.execution if candidate.accumulation_steps > 1 else None
    return candidate.precision, execution, candidate.jit_compile, candidate.recompute, candidate.initial_loss_scale


def _relative(candidate: Candidate) -> float:
    """Time against that of a plain trial.

    First calls took 1 to 6 s plain, 3 to 26 s jitted, up to 38 s unrolled and jitted, growing with the copies.
    """
    steps = candidate.accumulation_steps
    copies = steps if candidate.execution == "unrolled" else 1
    if candidate.jit_compile:
        return 1.5 + 0.5 * copies
    return 1.0 + (copies - 1) / 16
