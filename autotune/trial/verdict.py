"""From how the process of a pass ended to the outcome of the trial. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.core.failures import describe_death
from autotune.core.outcome import Memory, Outcome, State
from autotune.core.passes import DISK_EXIT, Progress
from autotune.core.trial import PassKind
from autotune.core.units import format_bytes, format_seconds
from autotune.trial.server import Ended

_WHILE = {
    "user_code": "loading the user's file",
    "build": "building the loop",
    "trace": "running the first update",
    "warm_up": "warming up",
    "measure": "measuring",
    "exercise": "running the updates of the memory pass",
}


def outcome_of_death(
    ended: Ended,
    *,
    progress: Progress | None,
    stderr_tail: str,
    kernel_oom_kills: int,
    timeout_s: float,
    last_words: str,
) -> Outcome:
    """Returns the outcome of a pass that left no answer.

    Args:
        ended: how its process ended.
        progress: how far it had come.
        stderr_tail: the end of its stderr.
        kernel_oom_kills: processes that the kernel killed for want of memory meanwhile.
        timeout_s: the time it was given.
        last_words: what the server said last, for the case that it died itself.
    """
    at = _WHILE.get(progress.phase) if progress else None
    suffix = f", while {at}" if at else ""
    phases = progress.phases if progress else {}
    if ended.timed_out:
        reason = f"stopped after {format_seconds(timeout_s)}{suffix}"
        return Outcome(state=State.TIMED_OUT, reason=reason, phases=phases)
    if ended.status is None:
        reason = f"the process that starts trials died{suffix}: {last_words}"
        return Outcome(state=State.CRASHED, reason=reason, phases=phases)
    if ended.status == DISK_EXIT:
        lines = stderr_tail.strip().splitlines()
        reason = lines[-1][:300] if lines else "the outcome could not be written"
        return Outcome(state=State.CRASHED, reason=reason, phases=phases)
    memory, reason = describe_death(ended.status, stderr_tail=stderr_tail, kernel_oom_kills=kernel_oom_kills)
    state = State.OUT_OF_MEMORY if memory else State.CRASHED
    return Outcome(state=state, reason=reason + suffix, phases=phases)


def held_to_limit(outcome: Outcome, limit_bytes: int | None) -> Outcome:
    """Returns the outcome, out of memory where its peak is above the limit: a loop without TensorFlow is told none."""
    peak = outcome.memory.peak_bytes if outcome.memory else None
    if outcome.state is not State.COMPLETED or limit_bytes is None or peak is None or peak <= limit_bytes:
        return outcome
    reason = f"the peak of {format_bytes(peak)} is above the limit of {format_bytes(limit_bytes)}"
    return replace(outcome, state=State.OUT_OF_MEMORY, reason=reason)


def combine(passes: Sequence[tuple[PassKind, Outcome]]) -> Outcome:
    """Makes one outcome of a trial's passes: the last one decides, and each adds what it measured."""
    last = passes[-1][1]
    phases: dict[str, float] = {}
    warnings: dict[str, None] = {}
    effective: dict[str, str] = {}
    memory: Memory | None = None
    for kind, outcome in passes:
        if kind == "memory":
            phases["memory_pass"] = sum(outcome.phases.values())
        else:
            phases |= outcome.phases
        warnings |= dict.fromkeys(outcome.warnings)
        effective |= outcome.effective
        memory = outcome.memory or memory
    return replace(last, memory=memory, phases=phases, warnings=tuple(warnings), effective=effective)
