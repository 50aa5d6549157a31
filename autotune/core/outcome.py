"""How a trial ended, and what it measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class State(str, Enum):
    """How a trial ended. A failed candidate is a value, not an exception."""

    COMPLETED = "completed"
    OUT_OF_MEMORY = "out_of_memory"
    NON_FINITE = "non_finite"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    INVALID = "invalid"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Timing of steady updates.

    Attributes:
        samples_per_s: goodput: samples of *applied* updates per second, from the median update.
        samples_per_s_low, samples_per_s_high: 95 % interval of the median.
        update_s: median wall-clock seconds of one update.
        updates_measured: updates behind the median.
        updates_skipped: of those, updates not applied because their gradients were not finite.
        input_wait_share: share of the measured time spent waiting for input data, 0 to 1; None where unknown.
        steady: False where the time was up before timings were steady or the interval narrow enough.
        energy_j_per_sample: joules per sample from the device's own meter; None where it has none.
    """

    samples_per_s: float
    samples_per_s_low: float
    samples_per_s_high: float
    update_s: float
    updates_measured: int
    updates_skipped: int
    input_wait_share: float | None = None
    steady: bool = True
    energy_j_per_sample: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peaks of one trial, in bytes; a peak that was not measured is None, never 0.

    Attributes:
        peak_bytes: the number that is compared with the limit: highest bytes the device allocator held.
        peak_source: the meter behind ``peak_bytes`` (``tf_bfc_cpu``, ``tf_allocator_gpu``, ``nvml_process``,
            ``nvml_device``, ``host_vmhwm``).
        nvml_peak_bytes: NVML's figure for the process, else the device's increase.
        host_peak_bytes: highest resident set of the process, above what it started with.
        input_bytes: bytes of the input pipeline, reported apart.
    """

    peak_bytes: int | None = None
    peak_source: str | None = None
    nvml_peak_bytes: int | None = None
    host_peak_bytes: int | None = None
    input_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one child process (a pass), or one trial made of passes, came to.

    Attributes:
        state: how it ended.
        reason: one sentence for people; None when completed without remark.
        throughput, memory: what was measured; None where nothing was.
        phases: seconds by phase name: ``fork``, ``user_code``, ``build``, ``trace``, ``warm_up``, ``measure``,
            ``memory_pass`` ...
        effective: what really ran, by axis name, where it could be read back (``precision``, ``jit_compile`` ...).
        final_loss_scale: float16 only.
        user_error: ``file:line: message`` of an exception in the user's code; it decides exit code 3.
        traceback: full text of that exception.
        warnings: sentences recorded with the trial (throttled clocks, another process on the device, BatchNorm ...).
    """

    state: State
    reason: str | None = None
    throughput: Throughput | None = None
    memory: Memory | None = None
    phases: dict[str, float] = field(default_factory=dict)
    effective: dict[str, str] = field(default_factory=dict)
    final_loss_scale: float | None = None
    user_error: str | None = None
    traceback: str | None = None
    warnings: tuple[str, ...] = ()
