"""What a trial is asked (:class:`TrialSpec`), and what happened (:class:`TrialRecord`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotune.core.candidate import Candidate
from autotune.core.outcome import Outcome, State
from autotune.core.workload import WorkloadRef

PassKind = Literal["inspect", "timing", "memory", "single", "calibrate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where trials run.

    Attributes:
        kind: ``cpu`` or ``gpu``.
        cuda_index: CUDA's ordinal among the visible GPUs; None on the CPU.
        uuid: NVML UUID of that GPU.
        name: for people and for file names.
        memory_usable_bytes: what a new process may use: NVML's view on a GPU, available host memory on the CPU.
        alignment: multiple that micro-batches prefer (8 on Tensor Cores, 1 elsewhere).
    """

    kind: Literal["cpu", "gpu"]
    cuda_index: int | None = None
    uuid: str | None = None
    name: str
    memory_usable_bytes: int
    alignment: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """How long to measure.

    Attributes:
        min_updates: fewest measured updates of a timing pass.
        max_measure_s: stop measuring after this long, however wide the interval.
        interval_share: stop once the 95 % interval of the median is within this share of it, either side.
        give_up_update_s: an update slower than this cannot win: the trial ends as ``timed_out`` without measuring; None
            never gives up.
        beaten_update_s: once the interval lies wholly above this, the candidate is beaten and its interval narrow
            enough; None always measures in full.
        memory_windows: full accumulation windows of a memory pass, before the tail window.
    """

    min_updates: int = 5
    max_measure_s: float = 10.0
    interval_share: float = 0.02
    give_up_update_s: float | None = None
    beaten_update_s: float | None = None
    memory_windows: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """All that a trial process is told. Written as JSON, so that a trial can be repeated by hand."""

    number: int
    workload: WorkloadRef
    candidate: Candidate
    device: Device
    memory_limit_bytes: int | None = None
    seed: int = 0
    timeout_s: float = 600.0
    plan: MeasurePlan = MeasurePlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A candidate that was run, and its outcome: one row of the trials table.

    Attributes:
        number: trial number within the study.
        started_unix: seconds since the epoch, from the tuner's clock.
        wall_s: seconds from start to recorded outcome, both passes included.
    """

    number: int
    candidate: Candidate
    outcome: Outcome
    started_unix: float
    wall_s: float

    @property
    def state(self) -> State:
        """How the trial ended."""
        return self.outcome.state

    @property
    def completed(self) -> bool:
        """True where the trial measured all that it was asked to."""
        return self.outcome.state is State.COMPLETED

    @property
    def samples_per_s(self) -> float | None:
        """Goodput, or None where it was not measured."""
        return self.outcome.throughput.samples_per_s if self.outcome.throughput else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak, or None where it was not measured."""
        return self.outcome.memory.peak_bytes if self.outcome.memory else None
