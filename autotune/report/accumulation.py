"""What gradient accumulation costs and saves at the same global batch, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.core.outcome import State
from autotune.core.select import full_batch
from autotune.core.study import Study
from autotune.core.trial import TrialRecord
from autotune.report.columns import Cell, Column


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulationRow:
    """The fastest trial at one number of accumulation steps, beside the fastest without accumulation.

    Both figures of a row come from the same trial. Relative figures compare with the fastest completed trial of one
    accumulation step in the *same precision*, and are None where that, or this, was not measured.

    Attributes:
        record: the fastest completed trial, else the first that was tried.
        trials: how many trials ran with this precision and number of steps.
        baseline: number of the trial compared with.
    """

    record: TrialRecord
    trials: int
    baseline: int | None
    relative_samples_per_s: float | None
    relative_update_s: float | None
    relative_peak: float | None


ACCUMULATION_COLUMNS: tuple[Column, ...] = (
    Column(name="precision", dtype="string", meaning="Keras dtype policy."),
    Column(name="replicas", dtype="Int64", meaning="Devices that train in step."),
    Column(name="accumulation_steps", dtype="Int64", meaning="Micro-batches per update and replica."),
    Column(name="micro_batch", dtype="Int64", meaning="Micro-batch of the fastest trial with so many steps."),
    Column(name="execution", dtype="string", meaning="Its execution."),
    Column(name="jit_compile", dtype="boolean", meaning="Whether it was compiled with XLA."),
    Column(name="recompute", dtype="boolean", meaning="Whether it recomputed the named blocks."),
    Column(name="samples_per_s", dtype="Float64", meaning="Its goodput, samples per second."),
    Column(name="samples_per_s_low", dtype="Float64", meaning="Lower end of its 95 % interval."),
    Column(name="samples_per_s_high", dtype="Float64", meaning="Upper end of its 95 % interval."),
    Column(name="peak_bytes", dtype="Int64", meaning="Its peak."),
    Column(name="relative_samples_per_s", dtype="Float64", meaning="Goodput relative to no accumulation (1 is equal)."),
    Column(name="relative_update_s", dtype="Float64", meaning="Time of one update relative to no accumulation."),
    Column(name="relative_peak", dtype="Float64", meaning="Peak relative to no accumulation."),
    Column(name="state", dtype="string", meaning="`completed`, or how the first trial with so many steps ended."),
    Column(name="trial", dtype="Int64", meaning="The trial the row shows."),
    Column(name="baseline_trial", dtype="Int64", meaning="The trial without accumulation that it is compared with."),
    Column(name="trials", dtype="Int64", meaning="Trials that ran in this precision with so many steps."),
)


def fastest(records: Iterable[TrialRecord]) -> TrialRecord | None:
    """Returns the completed record with the highest goodput (the lower number on a tie), or None."""
    measured = [r for r in records if r.completed and r.samples_per_s is not None]
    return min(measured, key=lambda r: (-(r.samples_per_s or 0.0), r.number), default=None)


def full_batch_record(study: Study) -> TrialRecord | None:
    """Returns the trial that figures are compared with; see :func:`autotune.core.select.full_batch`."""
    return full_batch(study.records)


def accumulation_rows(study: Study) -> tuple[AccumulationRow, ...]:
    """Returns one row per precision and number of accumulation steps, precisions in order of appearance."""
    groups: dict[tuple[str | None, int], dict[int, list[TrialRecord]]] = {}
    for record in study.records:
        candidate = record.candidate
        steps = groups.setdefault((candidate.precision, candidate.replicas), {})
        steps.setdefault(candidate.accumulation_steps, []).append(record)
    return tuple(_row(steps[count], fastest(steps.get(1, ()))) for steps in groups.values() for count in sorted(steps))


def _row(records: list[TrialRecord], baseline: TrialRecord | None) -> AccumulationRow:
    record = fastest(records) or records[0]
    base = baseline if record.completed else None
    return AccumulationRow(
        record=record,
        trials=len(records),
        baseline=base.number if base else None,
        relative_samples_per_s=ratio(record.samples_per_s, base.samples_per_s) if base else None,
        relative_update_s=ratio(_update_s(record), _update_s(base)) if base else None,
        relative_peak=ratio(record.peak_bytes, base.peak_bytes) if base else None,
    )


def ratio(value: float | None, base: float | None) -> float | None:
    """Returns ``value / base``, or None where either is missing or the base is zero."""
    return value / base if value is not None and base else None


def _update_s(record: TrialRecord) -> float | None:
    return record.outcome.throughput.update_s if record.outcome.throughput else None


def accumulation_cells(study: Study) -> list[dict[str, Cell]]:
    """Returns the rows' values by column name; figures of a trial that did not complete are None."""
    return [_cells(row) for row in accumulation_rows(study)]


def _cells(row: AccumulationRow) -> dict[str, Cell]:
    record, candidate = row.record, row.record.candidate
    measured = record.outcome.throughput if record.state is State.COMPLETED else None
    return {
        "precision": candidate.precision,
        "replicas": candidate.replicas,
        "accumulation_steps": candidate.accumulation_steps,
        "micro_batch": candidate.micro_batch,
        "execution": candidate.execution,
        "jit_compile": candidate.jit_compile,
        "recompute": candidate.recompute,
        "samples_per_s": measured.samples_per_s if measured else None,
        "samples_per_s_low": measured.samples_per_s_low if measured else None,
        "samples_per_s_high": measured.samples_per_s_high if measured else None,
        "peak_bytes": record.peak_bytes if measured else None,
        "relative_samples_per_s": row.relative_samples_per_s,
        "relative_update_s": row.relative_update_s,
        "relative_peak": row.relative_peak,
        "state": str(record.state),
        "trial": record.number,
        "baseline_trial": row.baseline,
        "trials": row.trials,
    }
