"""Where float16 candidates start their loss scale: calibrated once for a study, before its first trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.core.candidate import Candidate
from autotune.core.loss_scale_choice import Calibration
from autotune.core.outcome import State
from autotune.core.space import SearchSpace, fix_axis
from autotune.core.study import Job
from autotune.core.trial import TrialSpec
from autotune.core.workload import WorkloadRef
from autotune.trial import TrialLauncher

LARGEST_MICRO_BATCH = 32
TIMEOUT_S = 300.0
_AXIS = "initial_loss_scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A job and its space with the loss scale filled in.

    Attributes:
        calibration: how it was found; None where it was not looked for here, or could not be found.
        notes: sentences for the study's warnings.
    """

    job: Job
    space: SearchSpace
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()


def needs_calibration(job: Job, space: SearchSpace) -> bool:
    """True where float16 is searched under autotune's own loop, and the user left the initial scale open."""
    ours = job.workload.kind == "workload"
    return ours and "mixed_float16" in space.values("precision") and space.values(_AXIS) == (None,)


def calibrate(
    launcher: TrialLauncher,
    ref: WorkloadRef,
    job: Job,
    space: SearchSpace,
    say: Callable[[str], None],
    *,
    stored: Job | None = None,
) -> Calibrated:
    """Fills the initial loss scale into a job and its space, where float16 is searched.

    A calibration that fails is no reason to end a study: its candidates then start from the usual default, and a note
    says so.

    Args:
        launcher: runs the backward passes.
        ref: the user's code.
        job: what was asked for.
        space: what may be run.
        say: told in a sentence what happens.
        stored: the job of the study that is continued: its scale is kept, since measurements depend on it.
    """
    if not needs_calibration(job, space):
        return Calibrated(job=job, space=space)
    if stored is not None:
        return _with_scales(job, space, tuple(map(_number, stored.axes.get(_AXIS, ()))))
    say("looking for the initial loss scale of mixed_float16")
    reason = None
    micro_batch = min(LARGEST_MICRO_BATCH, job.global_batch)
    while micro_batch:
        answer = launcher.calibrate(_spec(ref, job, micro_batch))
        if answer.calibration is not None:
            found = answer.calibration
            say(f"initial loss scale {found.scale:g}, largest finite {_text(found.largest_finite)}")
            return replace(_with_scales(job, space, (found.scale,)), calibration=found, notes=found.warnings)
        failure = answer.failure
        reason = (failure.reason if failure else None) or "it ended without an answer"
        fits_not = failure is not None and failure.state is State.OUT_OF_MEMORY
        micro_batch = micro_batch // 8 if fits_not else 0
    note = f"the initial loss scale could not be found, so mixed_float16 starts from the default: {reason}"
    say(note)
    return Calibrated(job=job, space=space, notes=(note,))


def _spec(ref: WorkloadRef, job: Job, micro_batch: int) -> TrialSpec:
    return TrialSpec(
        number=0,
        workload=ref,
        candidate=Candidate(global_batch=job.global_batch, micro_batch=micro_batch, precision="mixed_float16"),
        device=job.device,
        memory_limit_bytes=job.memory_limit_bytes,
        seed=job.seed,
        timeout_s=TIMEOUT_S,
    )


def _with_scales(job: Job, space: SearchSpace, scales: tuple[float | None, ...]) -> Calibrated:
    filled = fix_axis(space, _AXIS, scales or (None,))
    return Calibrated(job=replace(job, axes=filled.axes_text()), space=filled)


def _number(text: str) -> float | None:
    return None if text == "default" else float(text)


def _text(scale: float | None) -> str:
    return "none" if scale is None else f"{scale:g}"
