"""What a plan is made of: ranges with their basis, the question, and one row per answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Basis = Literal["measured", "fitted", "estimated"]
"""``measured``: this very candidate ran here. ``fitted``: same hardware, another size. ``estimated``: anything else."""

COVERAGE = 0.90
"""Share of measured values that a stated range is meant to hold."""
Z = 1.6449
"""Standard deviations either side of the mean that hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A predicted value with its 90 % interval."""

    low: float
    expected: float
    high: float

    def plus(self, offset: float) -> Range:
        """The range of a value that is larger by ``offset``."""
        return Range(low=self.low + offset, expected=self.expected + offset, high=self.high + offset)

    def times(self, factor: float) -> Range:
        """The range in another unit."""
        return Range(low=self.low * factor, expected=self.expected * factor, high=self.high * factor)

    def widened(self, share: float) -> Range:
        """The range with an independent error of ``share`` (half-width of its own 90 % interval) added."""
        below = math.hypot(self.expected - self.low, share * self.expected)
        above = math.hypot(self.high - self.expected, share * self.expected)
        return Range(low=max(0.0, self.expected - below), expected=self.expected, high=self.expected + above)

    def inverted(self, numerator: float) -> Range:
        """``numerator / value``: the time of work done at a rate."""
        return Range(low=numerator / self.high, expected=numerator / self.expected, high=numerator / self.low)

    def chance_within(self, limit: float, limit_share: float = 0.0) -> float:
        """Probability that the value is at most ``limit``.

        Args:
            limit: in the range's unit.
            limit_share: standard deviation of the limit itself, as a share of it.
        """
        side = self.high - self.expected if limit > self.expected else self.expected - self.low
        sd = math.hypot(side / Z, limit_share * limit)
        if sd <= 0:
            return 1.0 if self.expected <= limit else 0.0
        return 0.5 * (1 + math.erf((limit - self.expected) / (sd * math.sqrt(2))))

    def holds(self, value: float) -> bool:
        """True where ``value`` lies in the range."""
        return self.low <= value <= self.high


def at_confidence(peak: Range, confidence: float) -> float:
    """The memory that holds ``peak`` with probability ``confidence``."""
    z = NormalDist().inv_cdf(confidence)
    side = peak.high - peak.expected if z > 0 else peak.expected - peak.low
    return peak.expected + z * side / Z


SortBy = Literal["time", "cost", "energy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a plan.

    Attributes:
        counts: numbers of GPUs to look at.
        global_batch: samples per update, over all GPUs.
        confidence: probability with which a micro-batch must fit.
        samples_per_epoch, epochs: the training; None asks for no hours.
        deadline_s: longest training, in seconds.
        budget_cost: most it may cost, in the currency of the prices.
        prices: price of one GPU-hour by catalogue id; the user's own, none are known here.
        link_bytes_per_s: bytes per second and direction between GPUs; None takes the board's link.
        sort: what the rows are sorted by; None takes what was asked (cost with prices, else time).
    """

    counts: tuple[int, ...] = (1,)
    global_batch: int
    confidence: float = 0.95
    samples_per_epoch: int | None = None
    epochs: float | None = None
    deadline_s: float | None = None
    budget_cost: float | None = None
    prices: dict[str, float] | None = None
    link_bytes_per_s: float | None = None
    sort: SortBy | None = None

    @property
    def samples(self) -> float | None:
        """Samples of the whole training."""
        if self.samples_per_epoch is None:
            return None
        return self.samples_per_epoch * (1.0 if self.epochs is None else self.epochs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer: a number of one GPU, the candidate to run there, and what it takes.

    Attributes:
        gpu: catalogue id, or the study's own device where that is not listed.
        count: GPUs that train in step.
        fits: True where some micro-batch fits with the probability asked for.
        precision, execution, jit_compile, recompute: the program.
        micro_batch, accumulation_steps: on each GPU; None where nothing fits.
        peak_bytes: forecast peak of that micro-batch (of micro-batch 1 where nothing fits).
        usable_bytes: memory that a TensorFlow process may use there.
        fit_probability: of that peak keeping within it.
        samples_per_s: over all GPUs; None where it cannot be said.
        hours, cost, kwh: of the whole training.
        memory_basis, rate_basis: where the figures are from.
        why_not: why it does not fit, misses the deadline or budget, or has no throughput.
    """

    gpu: str
    count: int
    fits: bool
    precision: str | None
    execution: str | None
    jit_compile: bool | None
    recompute: bool | None
    global_batch: int
    micro_batch: int | None = None
    accumulation_steps: int | None = None
    peak_bytes: Range | None = None
    usable_bytes: int | None = None
    fit_probability: float | None = None
    samples_per_s: Range | None = None
    hours: Range | None = None
    cost: Range | None = None
    kwh: Range | None = None
    memory_basis: Basis | None = None
    rate_basis: Basis | None = None
    why_not: str | None = None

    @property
    def basis(self) -> str:
        """Both bases in words: ``fitted``, or ``memory fitted, throughput estimated``."""
        if self.rate_basis is None or self.rate_basis == self.memory_basis:
            return self.memory_basis or "estimated"
        return f"memory {self.memory_basis}, throughput {self.rate_basis}"
