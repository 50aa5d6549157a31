"""What a plan takes from a study, and the studies that it refuses."""

from __future__ import annotations

from autotune.core.outcome import State
from autotune.core.plan.peaks import PeakPoint, program_of
from autotune.core.study import Study

HOST_METERS = frozenset({"host_vmhwm"})
# A trial that was too slow, or diverged, or went above the limit by its peak, has a peak all the same.
MEASURED = (State.COMPLETED, State.TIMED_OUT, State.NON_FINITE, State.OUT_OF_MEMORY)


def peak_points(study: Study) -> tuple[PeakPoint, ...]:
    """Returns the measured peaks of a study.

    Raises:
        ValueError: its peaks are not of one machine and meter, none was measured, or they are of host memory; one
            sentence with the mend.
    """
    measured = [r for r in study.records if r.state in MEASURED and r.peak_bytes]
    if not measured:
        raise ValueError(
            f"the study {study.name!r} has no trial with a peak, so there is nothing to plan from; run "
            "'autotune tune' with more trials or a higher --memory-limit"
        )
    sources = sorted({r.outcome.memory.peak_source or "unknown" for r in measured if r.outcome.memory})
    if len(sources) > 1:
        raise ValueError(
            f"the study {study.name!r} mixes machines: its peaks are from {' and '.join(sources)}, and one fit over "
            "both would mean nothing; plan from a study of one machine"
        )
    if set(sources) & HOST_METERS:
        raise ValueError(
            f"the study {study.name!r} measured host memory ({sources[0]}), which says nothing of a GPU's; plan from "
            "a study of a TensorFlow workload, or from one made on a GPU"
        )
    return tuple(
        PeakPoint(program=program_of(r.candidate), micro_batch=r.candidate.micro_batch, peak_bytes=float(r.peak_bytes))
        for r in measured
        if r.peak_bytes
    )
