"""The tables for people: what was tried, and what accumulation costs and saves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from autotune.core.study import Study
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_rate, format_seconds
from autotune.report.accumulation import AccumulationRow, accumulation_rows, full_batch_record, ratio
from autotune.report.layout import TextColumn, cut, left, render, right
from autotune.report.words import encodable, half_width, one_line, scale_words, share, state_words

_BOLD, _DIM = "\x1b[1m", "\x1b[2m"
_NOTHING = "no trial was run"
RATE = "samples/s"


def trade_off_table(study: Study, width: int = 80, color: bool = False, encoding: str | None = None) -> str:
    """Returns the trials as a table for people: completed ones first, fastest first, then failures with their reasons.

    Args:
        study: what to show.
        width: columns of the terminal; the least important columns are dropped, and notes cut, to fit it.
        color: bold for the chosen trial, dim for failures.
        encoding: what the text must survive; None takes standard output's.
    """
    encoding = encoding or sys.stdout.encoding
    if not study.records:
        return _NOTHING
    records = fastest_first(study)
    styles = [_style(study, record) for record in records] if color else None
    failures = ["" if record.completed else note(record) for record in records]
    table = render(trade_off_columns(study, records), width, encoding, styles, failures, RATE)
    ellipsis = encodable("…", encoding)
    heading = "\n".join(cut(encodable(line, encoding), width, ellipsis) for line in _heading(study, width))
    foot = [encodable(line, encoding) for line in _foot(study, records)]
    return "\n\n".join(filter(None, (heading, table, "\n".join(foot))))


def accumulation_table(study: Study, width: int = 80, encoding: str | None = None) -> str:
    """Returns the accumulation table for people: figures relative to one step, at the same global batch."""
    rows = accumulation_rows(study)
    if not rows:
        return _NOTHING
    failures = ["" if row.record.completed else note(row.record) for row in rows]
    return render(accumulation_columns(rows), width, encoding or sys.stdout.encoding, None, failures, RATE)


def accumulation_columns(rows: Sequence[AccumulationRow]) -> list[TextColumn]:
    """Returns the accumulation table's columns, rounded for people."""
    records = [row.record for row in rows]
    return [
        *_when_several("precision", records, lambda r: r.candidate.precision or "-"),
        right("steps", (str(r.candidate.accumulation_steps) for r in records)),
        right("micro-batch", (str(r.candidate.micro_batch) for r in records), drop=3),
        left("compiled", map(compiled, records), drop=2),
        right(RATE, map(_rate, records)),
        right("x full", (_plain_factor(row.relative_samples_per_s) for row in rows)),
        right("peak", (format_bytes(r.peak_bytes) for r in records)),
        right("% full", (_plain_percent(row.relative_peak) for row in rows)),
        right("trials", (str(row.trials) for row in rows), drop=1),
    ]


def phases_table(study: Study, width: int = 80, encoding: str | None = None) -> str:
    """Returns where the wall time of each trial went, phase by phase."""
    if not study.records:
        return _NOTHING
    names = dict.fromkeys(name for record in study.records for name in record.outcome.phases)
    columns = [
        right("trial", (str(r.number) for r in study.records)),
        right("wall", (format_seconds(r.wall_s) for r in study.records)),
    ]
    for i, name in enumerate(names):
        cells = (format_seconds(r.outcome.phases.get(name)) for r in study.records)
        columns.append(right(name.replace("_", " "), cells, drop=len(names) - i))
    return render(columns, width, encoding or sys.stdout.encoding)


def trade_off_columns(study: Study, records: Sequence[TrialRecord]) -> list[TextColumn]:
    """Returns the trials table's columns, rounded for people."""
    base = full_batch_record(study)

    def against_full(value: float | None, record: TrialRecord, full: float | None) -> float | None:
        return ratio(value, full) if record.completed else None

    rates = [against_full(r.samples_per_s, r, base.samples_per_s if base else None) for r in records]
    peaks = [against_full(r.peak_bytes, r, base.peak_bytes if base else None) for r in records]
    digits = len(str(max(r.number for r in records)))
    offered = any(r.candidate.execution is not None for r in records)
    return [
        right("#", (f"{_marks(study, r)}{r.number:>{digits}}" for r in records)),
        right("micro x steps", (f"{r.candidate.micro_batch} x {r.candidate.accumulation_steps}" for r in records)),
        *_when_several("replicas", records, lambda r: str(r.candidate.replicas), drop=2),
        *_when_several("precision", records, lambda r: (r.candidate.precision or "-").removeprefix("mixed_"), drop=9),
        *_when_several("scale", records, lambda r: scale_words(r.candidate.initial_loss_scale), drop=3),
        *([left("compiled", map(compiled, records), drop=8)] if offered else []),
        *_when_several("recompute", records, lambda r: "yes" if r.candidate.recompute else "-", drop=6),
        right(RATE, map(_rate, records)),
        right("±", map(_spread, records), drop=1),
        right("x full", map(_plain_factor, rates), drop=7),
        right("peak", (format_bytes(r.peak_bytes) for r in records)),
        right("% full", map(_plain_percent, peaks), drop=5),
    ]


def _when_several(
    header: str, records: Sequence[TrialRecord], cell: Callable[[TrialRecord], str], drop: int | None = None
) -> list[TextColumn]:
    """A column that says something only where the trials differ in it."""
    cells = [cell(record) for record in records]
    return [left(header, cells, drop=drop)] if len(set(cells)) > 1 else []


def fastest_first(study: Study) -> list[TrialRecord]:
    """Returns the completed trials, fastest first, then the others in order of their numbers."""

    def place(record: TrialRecord) -> tuple[bool, float, int]:
        return not record.completed, -(record.samples_per_s or 0.0) if record.completed else 0.0, record.number

    return sorted(study.records, key=place)


def _marks(study: Study, record: TrialRecord) -> str:
    chosen, front = record.number == study.chosen, record.number in study.pareto
    return (">" if chosen else "") + ("*" if front else " " if chosen else "")


def compiled(record: TrialRecord) -> str:
    """``fused jit``, or ``one pass`` where there is nothing to accumulate."""
    candidate = record.candidate
    # With one step all executions are the same single pass: naming one would suggest a difference.
    execution = candidate.execution if candidate.accumulation_steps > 1 else "one pass"
    return f"{execution or '-'}{' jit' if candidate.jit_compile else ''}"


def _rate(record: TrialRecord) -> str:
    return format_rate(record.samples_per_s if record.completed else None)


def _spread(record: TrialRecord) -> str:
    measured = record.outcome.throughput if record.completed else None
    return share(half_width(measured)) if measured else "-"


def note(record: TrialRecord) -> str:
    """Returns how a trial ended and why; of a completed one, what to know about its figures."""
    if not record.completed:
        return ": ".join(filter(None, (state_words(record), one_line(record.outcome.reason))))
    measured = record.outcome.throughput
    skipped = measured and measured.updates_skipped
    return ", ".join(
        filter(
            None,
            (
                f"{skipped} of {measured.updates_measured} updates skipped" if measured and skipped else "",
                "timings not steady" if measured and not measured.steady else "",
            ),
        )
    )


def _plain_factor(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _plain_percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}"


def _style(study: Study, record: TrialRecord) -> str:
    return _BOLD if record.number == study.chosen else "" if record.completed else _DIM


def _heading(study: Study, width: int) -> list[str]:
    job = study.job
    completed = sum(record.completed for record in study.records)
    limit = f", limit {format_bytes(job.memory_limit_bytes)}" if job.memory_limit_bytes is not None else ""
    what = f"{one_line(job.workload.entry_point)}, {job.batch_text}, {one_line(job.hardware.device)}"
    outcome = f"{completed} of {len(study.records)} trials completed{limit}"
    whole = f"{what}: {outcome}"
    return [whole] if len(whole) <= width else [what, outcome]


def _foot(study: Study, records: Sequence[TrialRecord]) -> list[str]:
    base = full_batch_record(study)
    parts = (
        "> chosen" if study.chosen is not None else "",
        "* none is both faster and smaller" if study.pareto else "",
        f"full: trial {base.number}, no accumulation" if base else "",
    )
    remarks: dict[str, list[str]] = {}
    for record in records:
        if record.completed and note(record):
            remarks.setdefault(note(record), []).append(str(record.number))
    lines = [f"{text}: trial{'s' if len(found) > 1 else ''} {', '.join(found)}" for text, found in remarks.items()]
    return list(filter(None, (",  ".join(filter(None, parts)), *lines)))
