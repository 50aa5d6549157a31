"""What is known at one decision of the policy, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from autotune.core.candidate import Candidate
from autotune.core.memory_fit import Fit, PeakModel
from autotune.core.outcome import State, Throughput
from autotune.core.pareto import usable
from autotune.core.space import SearchSpace
from autotune.core.throughput_model import Observation, ThroughputModel
from autotune.core.trial import TrialRecord
from autotune.core.trial_cost import CostModel, program

SLOW_PROGRAM = 1.5  # a program this many times slower than the best, at its best size, is left alone
HOPELESS = 3.0  # an update this many times slower than the best one is not measured
WORST_NOISE = 0.3  # an interval wider than this says no more
HOPELESS_NOISE = 0.3  # a figure of speech, not a measurement
SURE_ENOUGH = 0.85  # chance to fit that a trial needs
GAMBLE = 0.40  # chance to fit that suffices while nothing has run out of memory yet
STARVED = 2  # out-of-memory trials of programs that never fitted, after which all such are left alone
FIRST_STEPS = 4  # accumulation steps of a first look
FIRST_SIZE = 64  # and its micro-batch at most, unless that makes more than 32 steps

_FAILED = (State.NON_FINITE, State.TIMED_OUT, State.CRASHED, State.INVALID)
_BROKEN_AXES = ("precision", "jit_compile", "recompute", "execution")


class PolicyState:
    """Records, models and the candidates that are left.

    Args:
        space: what may be run.
        records: trials so far.
        pending: candidates that run elsewhere.
        memory_limit_bytes: limit on the peak.
    """

    def __init__(
        self,
        space: SearchSpace,
        records: tuple[TrialRecord, ...],
        pending: tuple[Candidate, ...],
        memory_limit_bytes: int | None,
    ) -> None:
        taken = {r.candidate for r in records} | set(pending)
        self.space = space
        self.records = records
        self.remaining = [c for c in space.candidates() if c not in taken]
        self.usable = [r for r in records if usable(r, memory_limit_bytes)]
        self.out_of_memory = [r for r in records if r.state is State.OUT_OF_MEMORY]
        self.failed = [r for r in records if r.state in _FAILED]
        self.peaks = PeakModel(records, memory_limit_bytes)
        self.cost = CostModel(records)
        self.best_rate = max((r.samples_per_s or 0.0 for r in self.usable), default=0.0)
        self.pending = pending

    @cached_property
    def throughput(self) -> ThroughputModel:
        """The throughput model; needs at least one timed trial."""
        return ThroughputModel(_observations(self.records), self.pending)

    def first_look(self, among: Sequence[Candidate]) -> Candidate:
        """A moderate size of the first program that is left: small enough to fit, few enough steps to be quick."""
        same_batch = [c for c in among if c.global_batch == self.space.global_batch] or list(among)
        plain = [c for c in same_batch if _plain(c) == _plain(same_batch[0])]
        looped = [c for c in plain if c.accumulation_steps > 1] or same_batch
        share = self.space.global_batch / self.space.replicas
        target = min(share / FIRST_STEPS, max(FIRST_SIZE, share / 32))
        return min(looped, key=lambda c: (abs(c.micro_batch - target), c.micro_batch))

    def most_different(self, among: Sequence[Candidate]) -> list[Candidate]:
        """Those that share fewest axis values with the trials that failed, in the order given."""
        shared = [
            sum(getattr(c, axis) == getattr(r.candidate, axis) for r in self.failed for axis in _BROKEN_AXES)
            for c in among
        ]
        return [c for c, count in zip(among, shared, strict=True) if count == min(shared)]

    def measured(self, candidate: Candidate) -> bool:
        """True where the candidate's program was timed at some size."""
        return any(r.samples_per_s and program(r.candidate) == program(candidate) for r in self.records)

    def reference(self) -> Candidate | None:
        """The plain full batch that results are compared with, if it is in the space."""
        base = [c for c in self.space.candidates() if c.global_batch == self.space.global_batch]
        full = [c for c in base if c.accumulation_steps == 1 and not c.jit_compile]
        plain = [c for c in full if not c.recompute]
        return min(plain, key=lambda c: c.precision not in (None, "float32"), default=None)

    def promising(self, candidate: Candidate) -> bool:
        """True where a candidate may fit and its program has not shown to be slow or broken."""
        needed = SURE_ENOUGH if self.out_of_memory else GAMBLE
        return (
            self.peaks.fits(candidate) is not Fit.NO
            and self.peaks.chance(candidate) >= needed
            and self.worth_a_look(candidate)
        )

    def worth_a_look(self, candidate: Candidate) -> bool:
        """True where a candidate's program has not shown to be slow, broken or starved."""
        return not self.broken(candidate) and not self._slow(candidate) and not self._starved(candidate)

    def _starved(self, candidate: Candidate) -> bool:
        """True for a program that never fitted, once two trials of such have failed since something fitted."""
        first = self.usable[0].number if self.usable else 0
        failed = [r.candidate for r in self.out_of_memory if r.number > first and not self.measured(r.candidate)]
        alike = sum(_activations(c) == _activations(candidate) for c in failed)
        return alike >= STARVED and not self.measured(candidate)

    def broken(self, candidate: Candidate) -> bool:
        """True where the program failed without ever completing, or a value of an axis failed in two programs."""
        return program(candidate) in self._broken_programs or any(
            (axis, getattr(candidate, axis)) in self._broken_values for axis in _BROKEN_AXES
        )

    def _slow(self, candidate: Candidate) -> bool:
        own = [r for r in self.usable if program(r.candidate) == program(candidate)]
        return bool(own) and all((r.samples_per_s or 0.0) * SLOW_PROGRAM < self._best_near(r) for r in own)

    def _best_near(self, record: TrialRecord) -> float:
        """Best rate at about the same micro-batch or below: to be slower than a larger one alone is no shame."""
        most = 1.5 * record.candidate.micro_batch
        return max(r.samples_per_s or 0.0 for r in self.usable if r.candidate.micro_batch <= most)

    @cached_property
    def _broken_programs(self) -> set[tuple[object, ...]]:
        completed = {program(r.candidate) for r in self.records if r.completed}
        return {program(r.candidate) for r in self.failed} - completed

    @cached_property
    def _broken_values(self) -> set[tuple[str, object]]:
        broken = set()
        for axis in _BROKEN_AXES:
            completed = {getattr(r.candidate, axis) for r in self.records if r.completed}
            for value in {getattr(r.candidate, axis) for r in self.failed} - completed:
                failed = {program(r.candidate) for r in self.failed if r.state is not State.TIMED_OUT}
                if completed and sum(_value(key, axis) == value for key in failed) >= 2:
                    broken.add((axis, value))
        return broken


def _activations(candidate: Candidate) -> tuple[object, ...]:
    return candidate.precision, candidate.recompute


def _plain(candidate: Candidate) -> tuple[object, ...]:
    return candidate.precision, candidate.jit_compile, candidate.recompute, candidate.initial_loss_scale


def _value(key: tuple[object, ...], axis: str) -> object:
    return key[("precision", "execution", "jit_compile", "recompute").index(axis)]


def _observations(records: Iterable[TrialRecord]) -> list[Observation]:
    found: list[Observation] = []
    for record in records:
        if record.outcome.throughput is not None and record.samples_per_s:
            found.append(_observation(record.candidate, record.outcome.throughput))
        elif record.state is State.TIMED_OUT and found:
            # Given up, or over its time: all that is known is that it was far slower than the best until then.
            hopeless = max(o.samples_per_s for o in found) / HOPELESS
            found.append(Observation(candidate=record.candidate, samples_per_s=hopeless, noise=HOPELESS_NOISE))
    return found


def _observation(candidate: Candidate, timing: Throughput) -> Observation:
    noise = (timing.samples_per_s_high - timing.samples_per_s_low) / (2 * 1.96 * timing.samples_per_s)
    return Observation(candidate=candidate, samples_per_s=timing.samples_per_s, noise=min(max(noise, 0.0), WORST_NOISE))
