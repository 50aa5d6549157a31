"""Throughput of candidates that were not run: on the study's own device, on another one, and on several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.core.candidate import Candidate
from autotune.core.gpu_spec import GpuSpec
from autotune.core.plan.scaling import Work, all_reduce_s, link_speed, time_ratio
from autotune.core.plan.values import Basis, Range, Z
from autotune.core.throughput_model import Observation, ThroughputModel
from autotune.core.trial import TrialRecord

# A board draws at most this while it trains; without a meter the plan counts on all of it.
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RateForecast:
    """Samples per second over all GPUs, with its basis."""

    samples_per_s: Range
    basis: Basis


class RateModel:
    """Forecasts throughput from the timed trials of one study.

    Args:
        records: trials; those that were not timed are left out.
        source: the study's GPU; None where it is not in the catalogue, so that no other GPU can be compared with it.
        work: operation and byte counts of the program; None where they are not known.
        gradient_bytes: what an all-reduce moves, at most; None where it is not known.

    Raises:
        ValueError: no trial was timed.
    """

    def __init__(
        self,
        records: Sequence[TrialRecord],
        source: GpuSpec | None = None,
        work: Work | None = None,
        gradient_bytes: float | None = None,
    ) -> None:
        self._timed = {r.candidate: r for r in records if r.completed and r.outcome.throughput is not None}
        if not self._timed:
            raise ValueError("no trial of the study was timed to its end; run 'autotune tune' with more trials")
        self._model = ThroughputModel(_observation(r) for r in self._timed.values())
        self._source = source
        self._work = work
        self._gradient_bytes = work.gradient_bytes if work and work.gradient_bytes else gradient_bytes

    @property
    def source(self) -> GpuSpec | None:
        """The study's GPU."""
        return self._source

    def here(self, candidate: Candidate) -> RateForecast:
        """Forecasts one candidate on one device of the study's kind."""
        record = self._timed.get(candidate)
        measured = record.outcome.throughput if record else None
        if measured is not None:
            return RateForecast(
                samples_per_s=Range(
                    low=measured.samples_per_s_low,
                    expected=measured.samples_per_s,
                    high=measured.samples_per_s_high,
                ),
                basis="measured",
            )
        predicted = self._model.predict(candidate)
        mean, sd = predicted.mean, predicted.sd
        around = Range(low=math.exp(mean - Z * sd), expected=math.exp(mean), high=math.exp(mean + Z * sd))
        return RateForecast(samples_per_s=around, basis="fitted")

    def on(
        self, candidate: Candidate, target: GpuSpec | None, link_bytes_per_s: float | None = None
    ) -> RateForecast | None:
        """Forecasts one candidate on ``candidate.replicas`` GPUs of another kind.

        Args:
            candidate: with its global batch over all GPUs.
            target: None is the study's own kind.
            link_bytes_per_s: between GPUs; None takes the board's.

        Returns:
            None where several GPUs are asked for and the size of the gradients is not known.
        """
        alone = self.here(replace(candidate, global_batch=candidate.global_batch // candidate.replicas, replicas=1))
        rate, basis = alone.samples_per_s, alone.basis
        if target is not None and self._source is not None and target.id != self._source.id:
            rate, basis = self._scaled(candidate, rate, target), "estimated"
        if candidate.replicas == 1:
            return RateForecast(samples_per_s=rate, basis=basis)
        board = target or self._source
        speed = link_bytes_per_s or (link_speed(board) if board else None)
        if self._gradient_bytes is None or speed is None:
            return None
        exchange = all_reduce_s(self._gradient_bytes, candidate.replicas, speed)
        return RateForecast(samples_per_s=_in_step(rate, candidate, exchange), basis="estimated")

    def _scaled(self, candidate: Candidate, rate: Range, target: GpuSpec) -> Range:
        assert self._source is not None
        precision = candidate.precision
        ratio = time_ratio(self._source, target, precision, self._work)
        # The part of a micro-batch's time that does not depend on its size is the host's, and stays.
        fixed = self._model.half_size / (self._model.half_size + candidate.micro_batch)
        slower = Range(
            low=fixed + (1 - fixed) * ratio.low,
            expected=fixed + (1 - fixed) * ratio.expected,
            high=fixed + (1 - fixed) * ratio.high,
        )
        # Both errors are factors: their logarithms are independent.
        expected = rate.expected / slower.expected
        below = math.hypot(math.log(rate.expected / rate.low), math.log(slower.high / slower.expected))
        above = math.hypot(math.log(rate.high / rate.expected), math.log(slower.expected / slower.low))
        return Range(low=expected * math.exp(-below), expected=expected, high=expected * math.exp(above))


def _in_step(alone: Range, candidate: Candidate, exchange_s: float) -> Range:
    """Rate of all replicas: each runs its share of the update, then gradients are exchanged once.

    The exchange is expected to wait for the last micro-batch; at best it hides behind the backward pass of that one,
    about two thirds of it; at worst the link reaches half of what was assumed.
    """
    own = candidate.global_batch / candidate.replicas
    last_s = candidate.micro_batch / alone.expected
    hidden = max(0.0, exchange_s - 2 / 3 * last_s)

    def rate(one: float, exchange: float) -> float:
        return candidate.global_batch / (own / one + exchange)

    return Range(
        low=rate(alone.low, 2 * exchange_s),
        expected=rate(alone.expected, exchange_s),
        high=rate(alone.high, hidden),
    )


def _observation(record: TrialRecord) -> Observation:
    measured = record.outcome.throughput
    assert measured is not None
    half = (measured.samples_per_s_high - measured.samples_per_s_low) / 2
    return Observation(
        candidate=record.candidate, samples_per_s=measured.samples_per_s, noise=half / (1.96 * measured.samples_per_s)
    )


def energy_kwh(hours: Range, count: int, gpu: GpuSpec) -> Range:
    """Energy of ``count`` boards at their full power: an upper estimate, since no board draws more for long."""
    return hours.times(count * gpu.tdp_w / 1000)


def energy_from_meter(j_per_sample: float, samples: float) -> Range:
    """Energy of a training from the joules per sample that the device's own meter gave."""
    kwh = j_per_sample * samples / _J_PER_KWH
    return Range(low=0.95 * kwh, expected=kwh, high=1.05 * kwh)
