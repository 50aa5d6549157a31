"""Scores a plan: runs candidates that the fit has not seen, and compares."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.core.axes.micro_batch import balanced_sizes
from autotune.core.candidate import Candidate
from autotune.core.outcome import Outcome, State
from autotune.core.plan.answers import candidate_of
from autotune.core.plan.parts import Parts
from autotune.core.plan.peak_curve import PeakForecast
from autotune.core.plan.peaks import PeakModel, Program
from autotune.core.plan.rates import RateModel
from autotune.core.plan.score import Check, Score, score, unseen_sizes
from autotune.core.plan.study_points import peak_points
from autotune.core.study import Study
from autotune.core.trial import Device, MeasurePlan, PassKind, TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.errors import AutotuneError, UsageError
from autotune.plan_sources import find_workload, try_model
from autotune.prepare import find_machine
from autotune.trial import TrialLauncher

# All of it ends within 5 minutes: nothing is begun that may not be done by then.
TIME_S = 270.0
LAST_START_S = 210.0
RUN_S = 90.0
PROGRAMS = 3
SIZES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What :func:`validate` returns.

    Attributes:
        title: in one line.
        checks: every figure, predicted and measured.
        notes: sentences about what was not run.
    """

    title: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def scores(self) -> dict[str, Score]:
        """Scores by what was checked: ``peak between``, ``peak beyond``, ``rate``."""
        kinds = {
            "peak between": [c for c in self.checks if c.what == "peak" and not c.beyond],
            "peak beyond": [c for c in self.checks if c.what == "peak" and c.beyond],
            "rate": [c for c in self.checks if c.what == "rate"],
        }
        return {name: found for name, checks in kinds.items() if (found := score(checks)) is not None}


def validate(study: Study, *, say: Callable[[str], None] = lambda sentence: None) -> Validation:
    """Runs candidates between the fitted sizes and up to four times beyond them, and compares; within 5 minutes.

    Args:
        study: to be scored; its workload must be here, unchanged, and this must be its machine.
        say: hears what is run.

    Raises:
        UsageError: the study cannot be fitted, its workload is not here, or this is another machine.
    """
    started = time.monotonic()
    ref, device = _here(study)
    try:
        points = peak_points(study)
        PeakModel(points)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    parts, _, remark = try_model(study, count=False, say=say)
    peaks = PeakModel(points, parts)
    rates = RateModel(study.records) if device.kind == "gpu" else None
    runner = _Runner(study, ref, device, parts, peaks, rates)
    planned = _planned(study, peaks)
    checks: list[Check] = []

    def is_over(limit_s: float = TIME_S) -> bool:
        return time.monotonic() - started > limit_s

    with (
        tempfile.TemporaryDirectory(prefix="autotune-") as scratch,
        TrialLauncher(Path(scratch), device, stop_now=is_over, say=say) as launcher,
    ):
        for done, candidate in enumerate(planned):
            if not is_over(LAST_START_S):
                say(f"running {candidate.describe()}, which the fit has not seen")
                left_s = started + TIME_S - time.monotonic()
                try:
                    checks += runner.check(launcher, candidate, Path(scratch) / str(done), left_s)
                    continue
                except KeyboardInterrupt:
                    if not is_over():  # by the user; else it was not done, or the device not free, in time
                        raise
            remark = f"{len(planned) - done} of {len(planned)} candidates were not run: 5 minutes were over"
            break
    title = f"{study.name}: forecasts against runs that the fit has not seen"
    return Validation(title=title, checks=tuple(checks), notes=(remark,) if remark else ())


def _here(study: Study) -> tuple[WorkloadRef, Device]:
    ref = find_workload(study)
    if ref is None:
        raise UsageError(
            f"{study.job.workload.entry_point} is not here, or has changed since the study, so no forecast of it "
            "can be checked; run this where the study was made"
        )
    stored = study.job.device
    try:
        here = find_machine("cpu" if stored.kind == "cpu" else stored.uuid or "gpu").device
    except AutotuneError as problem:
        raise UsageError(f"the study ran on {stored.name}, which is not here: {problem}") from None
    if here.kind == "gpu" and here.name != stored.name:
        raise UsageError(f"the study ran on {stored.name}, and this machine has {here.name}; validate it there")
    return ref, here


def _planned(study: Study, peaks: PeakModel) -> list[Candidate]:
    """What to run: the programs with the most sizes first, and of each both kinds of sizes; in turn, so that a time
    limit leaves some of each.
    """
    by_program = []
    looped = [p for p, curve in peaks.curves.items() if p.execution not in ("single", "unrolled") and curve.has_slope]
    for program in sorted(looped, key=lambda p: -len(peaks.curves[p].sizes))[:PROGRAMS]:
        by_program.append(_unseen(study, program, peaks))
    longest = max(map(len, by_program), default=0)
    return [candidates[i] for i in range(longest) for candidates in by_program if i < len(candidates)]


def _unseen(study: Study, program: Program, peaks: PeakModel) -> list[Candidate]:
    """Candidates of one program that were not measured, and whose forecast leaves a third of the memory free."""
    fitted, usable = peaks.curves[program].sizes, study.job.device.memory_usable_bytes
    most = 4 * fitted[-1]
    data = study.job.workload.dataset_size
    sizes = unseen_sizes(fitted, most if data is None else max(fitted[-1], min(most, data // 2)), most=SIZES)
    found: dict[Candidate, None] = {}
    for size in sizes:
        candidate = _candidate(study, program, size)
        forecast = peaks.predict(candidate) if candidate else None
        if candidate and forecast and forecast.basis != "measured" and forecast.bytes.expected < usable * 2 / 3:
            found[candidate] = None
    return list(found)


def _candidate(study: Study, program: Program, size: int) -> Candidate | None:
    """With the study's global batch, shared evenly; with two steps where the size is beyond that."""
    batch = study.job.global_batch
    if size < batch:
        size = min(balanced_sizes(batch), key=lambda even: (abs(even - size), even))
    if size >= batch:
        batch = 2 * size
    scales: dict[str | None, float | None] = {
        r.candidate.precision: r.candidate.initial_loss_scale for r in study.records
    }
    return candidate_of(program, size, 1, batch, scales)


class _Runner:
    """Runs one candidate and compares it with its forecast."""

    def __init__(
        self,
        study: Study,
        ref: WorkloadRef,
        device: Device,
        parts: Parts | None,
        peaks: PeakModel,
        rates: RateModel | None,
    ) -> None:
        self._study, self._ref, self._device = study, ref, device
        self._parts, self._peaks, self._rates = parts, peaks, rates

    def check(self, launcher: TrialLauncher, candidate: Candidate, folder: Path, seconds: float) -> list[Check]:
        """Runs ``candidate`` and returns what was predicted and measured."""
        forecast = self._peaks.predict(candidate)
        if forecast is None:
            return []
        spec = TrialSpec(
            number=0, workload=self._ref, candidate=candidate, device=self._device, seed=self._study.job.seed,
            memory_limit_bytes=None if self._device.kind == "cpu" else self._study.job.memory_limit_bytes,
            timeout_s=max(1.0, min(seconds, RUN_S)), plan=MeasurePlan(),
        )  # fmt: skip
        kind: PassKind = "memory" if self._device.kind == "cpu" else "single"
        outcome = launcher.run_pass(spec, kind, folder)
        checks = [self._peak_check(candidate, forecast, outcome)]
        if self._rates is not None and outcome.throughput is not None:
            predicted = self._rates.here(candidate).samples_per_s
            checks.append(
                Check(
                    what="rate", name=candidate.describe(), micro_batch=candidate.micro_batch,
                    beyond=forecast.octaves_beyond > 0, predicted=predicted, measured=outcome.throughput.samples_per_s,
                )
            )  # fmt: skip
        return checks

    def _peak_check(self, candidate: Candidate, forecast: PeakForecast, outcome: Outcome) -> Check:
        peak = outcome.memory.peak_bytes if outcome.memory and outcome.state is State.COMPLETED else None
        extra = candidate.global_batch - self._study.job.global_batch
        window = self._parts.sample_bytes * extra if self._parts else 0  # a larger resident window than the study's
        predicted = forecast.bytes
        return Check(
            what="peak",
            name=candidate.describe(),
            micro_batch=candidate.micro_batch,
            beyond=forecast.octaves_beyond > 0,
            predicted=predicted.plus(window),
            measured=None if peak is None else float(peak),
            reason=None if peak is not None else outcome.reason or str(outcome.state),
        )
