"""From a study to what a plan is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.core.plan.answers import Knowledge, Target
from autotune.core.plan.parts import Parts
from autotune.core.plan.peaks import PeakModel, program_of
from autotune.core.plan.rates import RateModel
from autotune.core.plan.study_points import peak_points
from autotune.core.study import Study
from autotune.errors import UsageError
from autotune.plan_sources import own_board, own_target, try_model

if TYPE_CHECKING:
    from autotune.core.gpu_spec import GpuSpec
    from autotune.probe.catalogue import Catalogue

NO_RATES = (
    "the study ran on a CPU, which says nothing about a GPU's throughput, so hours, cost and energy cannot be given: "
    "run 'autotune tune' on a GPU, or ask about memory alone"
)


def with_own(study: Study, board: GpuSpec | None, asked: Sequence[Target]) -> tuple[Target, ...]:
    """Returns the targets with the study's own kind of GPU marked as such; its device alone where none was asked."""
    if not asked:
        return (own_target(study, board),)
    own_id = board.id if board else None
    return tuple(replace(target, own=target.name == own_id) for target in asked)


def study_knowledge(
    study: Study,
    catalogue: Catalogue,
    asked: Sequence[Target],
    counts: Sequence[int],
    say: Callable[[str], None],
    dry: bool,
) -> tuple[Knowledge, str, tuple[str, ...]]:
    """Fits a study: what a plan can be made from, a title, and notes.

    Args:
        study: the measurements.
        catalogue: knows the boards.
        asked: the GPUs asked about.
        counts: how many of each.
        say: hears what takes a while.
        dry: look into the model whether or not the answer needs it.

    Raises:
        UsageError: the study cannot answer, with the reason.
    """
    from_cpu = study.job.device.kind == "cpu"
    board = own_board(catalogue, study)
    try:
        points = peak_points(study)
        peaks = PeakModel(points)
        chosen = study.chosen_record
        preferred = program_of(chosen.candidate) if chosen else None
        notes, parts, work = list[str](), None, None
        other = any(target.spec is None or target.name != (board.id if board else None) for target in asked)
        compares = not from_cpu and (other or max(counts) > 1)
        tight = any(_is_tight(peaks, target) for target in asked)
        if dry or compares or tight:
            parts, work, remark = try_model(study, count=compares, say=say)
            notes += [remark] if remark else []
            peaks = PeakModel(points, parts)
        if not from_cpu and other and board is None:
            raise UsageError(
                f"the study's GPU {study.job.hardware.device!r} is not in the catalogue, so no other can be compared "
                "with it; add it to your own gpus.toml ('autotune probe --catalogue' says where)"
            )
        rates = None if from_cpu else RateModel(study.records, board, work, _gradients(peaks, parts))
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    notes += _notes(from_cpu=from_cpu, other=other, counted=work is not None, compares=compares)
    known = Knowledge(
        peaks=peaks,
        rates=rates,
        parts=parts,
        from_cpu=from_cpu,
        preferred=preferred,
        loss_scale={r.candidate.precision: r.candidate.initial_loss_scale for r in study.records if r.completed},
        j_per_sample=_meter(study),
        global_batch=study.job.global_batch,
    )
    where = study.job.hardware.device
    return known, f"{study.job.workload.entry_point}, measured on {where}", tuple(notes)


def _is_tight(peaks: PeakModel, target: Target) -> bool:
    """True where not even the least that any program needs is sure to fit, so that remedies will be asked for."""
    return min(curve.at(1).bytes.high for curve in peaks.curves.values()) > 0.7 * target.usable_bytes


def _gradients(peaks: PeakModel, parts: Parts | None) -> float:
    """Bytes of the gradients; at most a third of what no micro-batch can avoid, where the model is not at hand."""
    if parts is not None:
        return float(parts.gradient_bytes)
    return min(curve.intercept for curve in peaks.curves.values()) / 3


def _meter(study: Study) -> float | None:
    chosen = study.chosen_record
    return chosen.outcome.throughput.energy_j_per_sample if chosen and chosen.outcome.throughput else None


def _notes(*, from_cpu: bool, other: bool, counted: bool, compares: bool) -> list[str]:
    notes = []
    if from_cpu and other:
        notes.append(
            "peaks were measured on a CPU: on a GPU kernels and their workspaces differ (convolutions may take GiB "
            "more while cuDNN tries algorithms), and 16-bit peaks are not forecast"
        )
    if compares and other and not counted:
        notes.append(
            "operations and traffic of the update are not known, so throughput on another GPU may be limited by either"
        )
    return notes
