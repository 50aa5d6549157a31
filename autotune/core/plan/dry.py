"""What a dry job is asked and answers: peaks without a GPU, from the compiler, without running an update.

The job is one process. It writes one answer per line, so that what it had found is not lost where it dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.candidate import Candidate
from autotune.core.plan.parts import Parts
from autotune.core.workload import WorkloadRef


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRequest:
    """One job.

    Attributes:
        workload: where the user's code is.
        candidates: jitted ones to compile; none asks for the parts alone.
        count: also count operations and memory traffic of each.
        seed: of the loops.
        usable_bytes: memory of the machine.
        preload: import TensorFlow and Keras once for all candidates; not where the user's file sets variables that they
            read while they are imported.
    """

    workload: WorkloadRef
    candidates: tuple[Candidate, ...] = ()
    count: bool = False
    seed: int = 0
    usable_bytes: int
    preload: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the compiler says of one candidate's update.

    Attributes:
        peak_bytes: XLA's buffer assignment, plus what lives outside the program.
        temporary_bytes: of it, buffers that live inside the program only.
        flops: multiplications and additions of matrix products and convolutions; None where not counted.
        traffic_bytes: operands and results of the fused kernels; None where not counted.
    """

    peak_bytes: int
    temporary_bytes: int
    flops: float | None = None
    traffic_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryAnswer:
    """One line of a dry job's answer.

    Attributes:
        index: of the candidate; None for a line about the workload.
        parts: the built model's bytes.
        compiled: what the compiler said.
        reason: why there is none; one sentence.
        usage_error: the file does not offer what it must.
        user_error: ``file:line: message`` of an exception in the user's code.
        traceback: its full text.
    """

    index: int | None = None
    parts: Parts | None = None
    compiled: Compiled | None = None
    reason: str | None = None
    usage_error: str | None = None
    user_error: str | None = None
    traceback: str | None = None
