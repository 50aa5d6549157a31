"""Scoring a plan against runs it has not seen: which candidates to run, and how far off the forecasts were."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest

from autotune.core.plan.values import COVERAGE, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One figure, predicted and measured.

    Attributes:
        what: ``peak`` (bytes) or ``rate`` (samples per second).
        name: the candidate, for people.
        beyond: it lies outside the fitted sizes.
        predicted: with its 90 % range.
        measured: what the run gave; None where it failed, for ``reason``.
        reason: why nothing was measured.
    """

    what: str
    name: str
    micro_batch: int
    beyond: bool
    predicted: Range
    measured: float | None = None
    reason: str | None = None

    @property
    def error(self) -> float | None:
        """Predicted less measured, as a share of the measured value."""
        return None if self.measured is None else (self.predicted.expected - self.measured) / self.measured

    @property
    def held(self) -> bool | None:
        """True where the range holds the measured value."""
        return None if self.measured is None else self.predicted.holds(self.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Errors of a set of checks.

    Attributes:
        count: checks that were measured.
        median_error, worst_error: of the absolute relative errors.
        coverage: share of ranges that held the measured value.
    """

    count: int
    median_error: float
    worst_error: float
    coverage: float

    def sentence(self, what: str) -> str:
        """For people."""
        return (
            f"{what}: median error {100 * self.median_error:.1f} %, worst {100 * self.worst_error:.1f} %, "
            f"{100 * self.coverage:.0f} % of the {100 * COVERAGE:.0f} % ranges held it ({self.count} runs)"
        )


def score(checks: Sequence[Check]) -> Score | None:
    """Returns the errors of ``checks``; None where none was measured."""
    errors = [abs(check.error) for check in checks if check.error is not None]
    held = [check.held for check in checks if check.held is not None]
    if not errors:
        return None
    return Score(
        count=len(errors),
        median_error=statistics.median(errors),
        worst_error=max(errors),
        coverage=sum(held) / len(held),
    )


def unseen_sizes(fitted: Sequence[int], largest: int, *, most: int = 4) -> list[int]:
    """Returns micro-batches worth checking a fit at: between the fitted sizes, and up to four times beyond.

    Args:
        fitted: sizes that the fit has seen.
        largest: the largest that can be run.
        most: how many to return; the widest gaps, and the farthest beyond, come first.
    """
    sizes = sorted(set(fitted))
    gaps = sorted(pairwise(sizes), key=lambda gap: gap[0] / gap[1])
    between = [round((a * b) ** 0.5) for a, b in gaps if b > a + 1]
    beyond = [size for size in (2 * sizes[-1], 4 * sizes[-1]) if size <= largest]
    if not beyond and largest > sizes[-1]:
        beyond = [largest]
    ordered = chain.from_iterable(zip_longest(beyond, between))
    return sorted([size for size in dict.fromkeys(ordered) if size is not None and size not in sizes][:most])
