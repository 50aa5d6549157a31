"""Throughput of candidates that were not run, predicted from those that were: a mean with a standard deviation.

An update takes about ``steps x (overhead + micro-batch x cost)``, so samples per second grow with the micro-batch m
like ``1 / (1 + h / m)``, where h is the size at which overhead and work are equal. What departs from that curve
(caches, tiles, a program that suits the workload) is not known beforehand: it is treated as a Gaussian process over log
throughput, whose covariance says how much two candidates have in common. Its standard deviations below are prior
knowledge about training loops, taken from the table of executions in ``docs/search.md``, not from the landscapes that
the search is judged by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.core.candidate import Candidate

# Prior standard deviations of log throughput (0.1 is about 10 %).
LEVEL = 1.0  # of everything
PRECISION = 0.35
JIT = 0.18
RECOMPUTE = 0.08
EXECUTION = 0.12
PROGRAM = 0.26  # of compilation and execution together: XLA on a convolution in a loop is no sum of two effects
PROGRAM_IN_PRECISION = 0.10  # of the same within one precision
GLOBAL_BATCH = 0.05  # the optimizer's own time, shared by more samples
GLOBAL_BATCH_OCTAVES = 4.0
LOSS_SCALE = 0.02  # skipped updates
SIZE = 0.12  # departure from the curve, shared by all programs
SIZE_IN_PROGRAM = 0.06  # departure of one program
SIZE_OCTAVES = 2.0  # correlation length over the micro-batch, in factors of two
ROUGH = 0.03  # jumps from one size to the next: tiles, waves, another library kernel
ROUGH_OCTAVES = 0.5
RECOMPUTE_COST = math.log(0.85)  # prior mean: a recomputed forward pass
REPEAT = 0.006  # the same candidate in a fresh process

USUAL_HALF_SIZE = 4.0
HALF_SIZE_OCTAVES = 2.0  # standard deviation of its logarithm, in factors of two
HALF_SIZES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
SLOWEST = math.log(2.0)  # at less than half of what the curve says it is slow; how slow must not bend the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Log of samples per second: expected, and its standard deviation."""

    mean: float
    sd: float

    def chance_above(self, log_rate: float) -> float:
        """Probability that the throughput lies above ``exp(log_rate)``."""
        return 0.5 * math.erfc((log_rate - self.mean) / (self.sd * math.sqrt(2)))

    def expected_gain(self, log_rate: float) -> float:
        """Expected improvement over ``exp(log_rate)``, as a share of it (0.01 is 1 %)."""
        z = (self.mean - log_rate) / self.sd
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return self.sd * (z * 0.5 * math.erfc(-z / math.sqrt(2)) + density)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A measured candidate.

    Attributes:
        candidate: what was run.
        samples_per_s: goodput.
        noise: relative standard deviation of it (0.01 is 1 %).
    """

    candidate: Candidate
    samples_per_s: float
    noise: float = 0.0


class ThroughputModel:
    """A Gaussian process over log throughput, conditioned on what was measured.

    Args:
        observations: at least one.
        pending: candidates that others are running; they count as measured at their own prediction, so that nobody
            proposes their neighbours for the same reason.
    """

    def __init__(self, observations: Iterable[Observation], pending: Iterable[Candidate] = ()) -> None:
        seen = tuple(observations)
        self._top = max(math.log(o.samples_per_s) for o in seen)
        logs = [math.log(o.samples_per_s) - self._top for o in seen]
        noise = [o.noise**2 + REPEAT**2 for o in seen]
        known = [o.candidate for o in seen]
        covariance = _covariances(known)
        posteriors = [_Posterior(known, covariance, logs, noise, half) for half in HALF_SIZES]
        self._posterior = max(posteriors, key=lambda p: p.evidence)
        waiting = tuple(pending)
        if waiting:
            logs += [self._posterior.predict(c)[0] for c in waiting]
            known += waiting
            noise += [REPEAT**2] * len(waiting)
            self._posterior = _Posterior(known, _covariances(known), logs, noise, self._posterior.half_size)

    @property
    def half_size(self) -> float:
        """Micro-batch at which overhead and work take equally long, as far as the measurements say."""
        return self._posterior.half_size

    def predict(self, candidate: Candidate) -> Prediction:
        """Predicts one candidate's throughput."""
        mean, variance = self._posterior.predict(candidate)
        return Prediction(mean=self._top + mean, sd=math.sqrt(variance))


class _Posterior:
    """The process conditioned on (candidate, log rate, noise variance), for one half-size."""

    def __init__(
        self,
        known: list[Candidate],
        covariance: list[list[float]],
        logs: list[float],
        noise: list[float],
        half_size: float,
    ) -> None:
        self.half_size = half_size
        self._known = known
        residuals = [y - _prior_mean(c, half_size) for c, y in zip(known, logs, strict=True)]
        slowest = max(residuals) - SLOWEST
        residuals = [max(r, slowest) for r in residuals]
        noisy = [[v + noise[i] * (i == j) for j, v in enumerate(row)] for i, row in enumerate(covariance)]
        self._factor = _cholesky(noisy)
        half_solved = _forward(self._factor, residuals)
        self._weights = _backward(self._factor, half_solved)
        fit = sum(v * v for v in half_solved) / 2
        volume = sum(math.log(self._factor[i][i]) for i in range(len(known)))
        # Most loops have half-sizes of a few samples; two or three points outvote this.
        surprise = math.log2(max(half_size, 0.25) / USUAL_HALF_SIZE) / HALF_SIZE_OCTAVES
        self.evidence = -fit - volume - surprise**2 / 2

    def predict(self, candidate: Candidate) -> tuple[float, float]:
        """Mean and variance at ``candidate``, relative to the best measured one."""
        shared = [_covariance(candidate, other) for other in self._known]
        mean = _prior_mean(candidate, self.half_size) + sum(w * k for w, k in zip(self._weights, shared, strict=True))
        explained = _forward(self._factor, shared)
        return mean, max(_covariance(candidate, candidate) - sum(v * v for v in explained), 1e-8)


def _prior_mean(candidate: Candidate, half_size: float) -> float:
    """Log rate by the curve: an update is ``steps x (half_size + samples computed per step)``, in units of a sample."""
    steps = candidate.accumulation_steps
    share = candidate.global_batch / candidate.replicas
    # XLA compiles one micro-batch for a loop, so the last one is padded; elsewhere it is as short as what is left.
    padded = candidate.jit_compile and steps > 1 and candidate.execution != "unrolled"
    computed = steps * candidate.micro_batch if padded else share
    expected = -math.log((computed + steps * half_size) / share)
    return expected + (RECOMPUTE_COST if candidate.recompute else 0.0)


def _covariance(a: Candidate, b: Candidate) -> float:
    shared = LEVEL**2
    shared += PRECISION**2 * (a.precision == b.precision)
    shared += JIT**2 * (a.jit_compile == b.jit_compile)
    shared += RECOMPUTE**2 * (a.recompute == b.recompute)
    looped = a.accumulation_steps > 1 and b.accumulation_steps > 1
    # One step is no loop: the full batch shares what its base has, and nothing of any execution.
    same_execution = looped and a.execution == b.execution
    single = a.accumulation_steps == 1 and b.accumulation_steps == 1
    shared += EXECUTION**2 * (same_execution or single)
    same_program = a.jit_compile == b.jit_compile and (same_execution or single)
    same_kernels = same_program and a.precision == b.precision
    shared += PROGRAM**2 * same_program + PROGRAM_IN_PRECISION**2 * same_kernels
    shared += LOSS_SCALE**2 * (a.initial_loss_scale == b.initial_loss_scale)
    batch_octaves = abs(math.log2(a.global_batch / b.global_batch))
    shared += GLOBAL_BATCH**2 * math.exp(-batch_octaves / GLOBAL_BATCH_OCTAVES)
    octaves = abs(math.log2(a.micro_batch / b.micro_batch))
    shared += ROUGH**2 * math.exp(-octaves / ROUGH_OCTAVES)
    distance = math.sqrt(3) * octaves / SIZE_OCTAVES
    near = (1 + distance) * math.exp(-distance)  # Matern 3/2: smooth from size to size, free over octaves
    return shared + near * (SIZE**2 + SIZE_IN_PROGRAM**2 * same_kernels)


def _covariances(known: list[Candidate]) -> list[list[float]]:
    return [[_covariance(a, b) for b in known] for a in known]


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        line: list[float] = []
        for j in range(i + 1):
            rest = row[j] - sum(a * b for a, b in zip(line, lower[j] if j < i else line, strict=False))
            line.append(math.sqrt(max(rest, 1e-12)) if i == j else rest / lower[j][j])
        lower.append(line)
    return lower


def _forward(lower: list[list[float]], right: Sequence[float]) -> list[float]:
    solved: list[float] = []
    for row, value in zip(lower, right, strict=True):
        solved.append((value - sum(a * b for a, b in zip(row, solved, strict=False))) / row[len(solved)])
    return solved


def _backward(lower: list[list[float]], right: Sequence[float]) -> list[float]:
    solved = list(right)
    for i in reversed(range(len(lower))):
        solved[i] = (solved[i] - sum(lower[j][i] * solved[j] for j in range(i + 1, len(lower)))) / lower[i][i]
    return solved
