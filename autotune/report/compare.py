"""Studies side by side, as plain values: what differs around them, and whether their throughputs do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from autotune.core.candidate import Candidate
from autotune.core.outcome import Throughput
from autotune.core.study import Job, Study
from autotune.core.trial import TrialRecord
from autotune.report.accumulation import ratio
from autotune.report.columns import Cell, Column

Change = Literal["baseline", "faster", "slower", "within intervals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something around the studies that is not the same for all; ``values`` in the studies' order, None if unknown."""

    topic: Literal["hardware", "software", "workload", "job"]
    name: str
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateComparison:
    """One candidate that completed in two studies or more.

    Attributes:
        records: its fastest completed trial by study; None where there is none.
        changes: throughput against the first study that has it: beyond both 95 % intervals, or within them.
        relative_samples_per_s, relative_peak: against that study's trial.
    """

    candidate: Candidate
    records: tuple[TrialRecord | None, ...]
    changes: tuple[Change | None, ...]
    relative_samples_per_s: tuple[float | None, ...]
    relative_peak: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Several studies side by side.

    Attributes:
        labels: the studies' names, made unique.
        differences: what is not the same around them.
        candidates: what completed in two studies or more, in the first study's order.
        verdicts: one sentence per study after the first.
    """

    labels: tuple[str, ...]
    studies: tuple[Study, ...]
    differences: tuple[Difference, ...]
    candidates: tuple[CandidateComparison, ...]
    verdicts: tuple[str, ...]


COMPARISON_COLUMNS: tuple[Column, ...] = (
    Column(name="study", dtype="string", meaning="The study's name."),
    Column(name="trial", dtype="Int64", meaning="The candidate's fastest completed trial in that study."),
    Column(name="micro_batch", dtype="Int64", meaning="As in the trials table."),
    Column(name="accumulation_steps", dtype="Int64", meaning="As in the trials table."),
    Column(name="global_batch", dtype="Int64", meaning="As in the trials table."),
    Column(name="replicas", dtype="Int64", meaning="As in the trials table."),
    Column(name="precision", dtype="string", meaning="As in the trials table."),
    Column(name="initial_loss_scale", dtype="Float64", meaning="As in the trials table."),
    Column(name="jit_compile", dtype="boolean", meaning="As in the trials table."),
    Column(name="execution", dtype="string", meaning="As in the trials table."),
    Column(name="recompute", dtype="boolean", meaning="As in the trials table."),
    Column(name="samples_per_s", dtype="Float64", meaning="Goodput, samples per second."),
    Column(name="samples_per_s_low", dtype="Float64", meaning="Lower end of its 95 % interval."),
    Column(name="samples_per_s_high", dtype="Float64", meaning="Upper end of its 95 % interval."),
    Column(name="peak_bytes", dtype="Int64", meaning="Peak."),
    Column(name="relative_samples_per_s", dtype="Float64", meaning="Goodput relative to the first study that has it."),
    Column(name="relative_peak", dtype="Float64", meaning="Peak relative to that study's."),
    Column(
        name="change",
        dtype="string",
        meaning="`baseline`, `faster` or `slower` where the 95 % intervals lie apart, else `within intervals`.",
    ),
    Column(name="chosen", dtype="boolean", meaning="Whether the study chose this trial."),
)


def compare(studies: Sequence[Study]) -> Comparison:
    """Compares two studies or more; the first is what the others are measured against."""
    labels = _unique([study.name for study in studies])
    candidates = _candidates(studies)
    return Comparison(
        labels=labels,
        studies=tuple(studies),
        differences=_differences([study.job for study in studies]),
        candidates=candidates,
        verdicts=tuple(_verdict(labels, studies, candidates, i) for i in range(1, len(studies))),
    )


def change(base: Throughput, other: Throughput) -> Change:
    """Returns whether ``other`` is beyond ``base``: only where the two 95 % intervals do not touch."""
    if other.samples_per_s_low > base.samples_per_s_high:
        return "faster"
    return "slower" if other.samples_per_s_high < base.samples_per_s_low else "within intervals"


def comparison_rows(comparison: Comparison) -> list[dict[str, Cell]]:
    """Returns one row per candidate and study that completed it: values by column name."""
    rows = []
    for item in comparison.candidates:
        for i, record in enumerate(item.records):
            measured = record.outcome.throughput if record else None
            if record is None or measured is None:
                continue
            own: dict[str, Cell] = {
                "study": comparison.labels[i],
                "trial": record.number,
                "accumulation_steps": item.candidate.accumulation_steps,
                "samples_per_s": measured.samples_per_s,
                "samples_per_s_low": measured.samples_per_s_low,
                "samples_per_s_high": measured.samples_per_s_high,
                "peak_bytes": record.peak_bytes,
                "relative_samples_per_s": item.relative_samples_per_s[i],
                "relative_peak": item.relative_peak[i],
                "change": item.changes[i],
                "chosen": comparison.studies[i].chosen == record.number,
            }
            rows.append({f.name: getattr(item.candidate, f.name) for f in fields(Candidate)} | own)
    return rows


def _candidates(studies: Sequence[Study]) -> tuple[CandidateComparison, ...]:
    found: dict[Candidate, list[TrialRecord | None]] = {}
    for i, study in enumerate(studies):
        for record in study.records:
            if not record.completed or record.outcome.throughput is None:
                continue
            slots = found.setdefault(record.candidate, [None] * len(studies))
            held = slots[i]
            if held is None or (record.samples_per_s or 0) > (held.samples_per_s or 0):
                slots[i] = record
    shared = {c: slots for c, slots in found.items() if sum(record is not None for record in slots) > 1}
    return tuple(_compared(candidate, slots) for candidate, slots in shared.items())


def _compared(candidate: Candidate, records: list[TrialRecord | None]) -> CandidateComparison:
    base = next(record for record in records if record is not None)

    def against_base(record: TrialRecord | None) -> Change | None:
        if record is None or record.outcome.throughput is None or base.outcome.throughput is None:
            return None
        return "baseline" if record is base else change(base.outcome.throughput, record.outcome.throughput)

    return CandidateComparison(
        candidate=candidate,
        records=tuple(records),
        changes=tuple(against_base(record) for record in records),
        relative_samples_per_s=tuple(ratio(r.samples_per_s, base.samples_per_s) if r else None for r in records),
        relative_peak=tuple(ratio(r.peak_bytes, base.peak_bytes) if r else None for r in records),
    )


def _differences(jobs: Sequence[Job]) -> tuple[Difference, ...]:
    found = []
    for topic in ("hardware", "software", "workload"):
        parts = [getattr(job, topic) for job in jobs]
        found += [_difference(topic, f.name, [getattr(part, f.name) for part in parts]) for f in fields(parts[0])]
    for name in ("global_batch", "memory_limit_bytes", "objective", "seed"):
        found.append(_difference("job", name, [getattr(job, name) for job in jobs]))
    axes = dict.fromkeys(name for job in jobs for name in job.axes)
    found += [_difference("job", f"axis {name}", [", ".join(job.axes.get(name, ())) for job in jobs]) for name in axes]
    return tuple(d for d in found if len(set(d.values)) > 1)


def _difference(topic: str, name: str, values: Sequence[object]) -> Difference:
    shown = tuple(None if value is None or value == "" else str(value) for value in values)
    return Difference(topic=topic, name=name, values=shown)  # type: ignore[arg-type]


def _verdict(labels: Sequence[str], studies: Sequence[Study], candidates: Sequence[CandidateComparison], i: int) -> str:
    return "; ".join(filter(None, (_on_shared(labels, candidates, i), _on_chosen(labels, studies[0], studies[i], i))))


def _on_shared(labels: Sequence[str], candidates: Sequence[CandidateComparison], i: int) -> str:
    both = [c for c in candidates if c.records[0] is not None and c.relative_samples_per_s[i]]
    if not both:
        return f"{labels[0]} and {labels[i]} have no completed candidate in common"
    mean = math.exp(sum(math.log(c.relative_samples_per_s[i] or 1.0) for c in both) / len(both))
    beyond = sum(c.changes[i] in ("faster", "slower") for c in both)
    return (
        f"{labels[i]} has {mean:.2f}x the throughput of {labels[0]} over {len(both)} common "
        f"candidate{'s' if len(both) > 1 else ''} (geometric mean), beyond the intervals in {beyond}"
    )


def _on_chosen(labels: Sequence[str], base: Study, other: Study, i: int) -> str:
    before, after = base.chosen_record, other.chosen_record
    a = before.outcome.throughput if before else None
    b = after.outcome.throughput if after else None
    if a is None or b is None:
        return ""
    how = {"faster": "beyond the intervals", "slower": "beyond the intervals"}.get(change(a, b), "within the intervals")
    return f"its chosen configuration has {b.samples_per_s / a.samples_per_s:.2f}x that of {labels[0]}'s, {how}"


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    )
