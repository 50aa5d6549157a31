"""The inverse question: how much memory does one micro-batch need?"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.plan.answers import FROM_CPU, OTHER_GPU, SIXTEEN_BIT, Knowledge, candidate_of
from autotune.core.plan.peaks import Program
from autotune.core.plan.values import Range, at_confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Answer to the inverse question: memory for one micro-batch.

    Attributes:
        program: which program.
        micro_batch: the one asked about.
        peak: forecast on a GPU.
        usable_bytes: what a process must be able to use, with the confidence asked for.
        basis: of the peak.
    """

    program: Program
    micro_batch: int
    peak: Range
    usable_bytes: int
    basis: str


def needs(known: Knowledge, micro_batch: int, confidence: float, *, own: bool) -> tuple[Need, ...]:
    """Returns the memory that ``micro_batch`` needs in every program, least first.

    Args:
        own: on the study's own device; elsewhere the ranges are wider.
    """
    found = []
    for program in known.peaks.programs:
        if known.from_cpu and not own and program.precision in SIXTEEN_BIT:
            continue
        batch = micro_batch if program.execution == "single" else 2 * micro_batch
        candidate = candidate_of(program, micro_batch, 1, batch, known.loss_scale)
        forecast = known.peaks.predict(candidate) if candidate else None
        if forecast is None:
            continue
        peak = forecast.bytes.widened(0.0 if own else FROM_CPU if known.from_cpu else OTHER_GPU)
        found.append(
            Need(
                program=program,
                micro_batch=micro_batch,
                peak=peak,
                usable_bytes=round(at_confidence(peak, confidence)),
                basis=forecast.basis if own else "estimated",
            )
        )
    return tuple(sorted(found, key=lambda need: need.usable_bytes))
