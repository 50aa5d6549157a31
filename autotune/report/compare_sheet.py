"""A comparison of studies as a sheet that every report format can render."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from autotune.core.study import Study
from autotune.core.trial import TrialRecord
from autotune.core.units import format_bytes, format_rate
from autotune.report.compare import (
    COMPARISON_COLUMNS,
    CandidateComparison,
    Comparison,
    Difference,
    compare,
    comparison_rows,
)
from autotune.report.frames import build_frame
from autotune.report.layout import TextColumn, left, render, right
from autotune.report.sheet import SCHEMA_VERSION, Sheet, finite
from autotune.report.words import factor, half_width, one_line, share

_SIGNS = {"faster": "+", "slower": "-", "within intervals": "="}


def comparison_sheet(studies: Sequence[Study], *, width: int = 80) -> Sheet:
    """Returns several studies side by side; the first is what the others are measured against."""
    comparison = compare(studies)
    rows = comparison_rows(comparison)
    columns = tuple(_columns(comparison))
    return Sheet(
        title="comparison of " + ", ".join(comparison.labels),
        frame=build_frame(COMPARISON_COLUMNS, rows),
        columns=columns,
        text=_text(comparison, columns, width),
        document=finite(
            {
                "schema_version": SCHEMA_VERSION,
                "studies": list(comparison.labels),
                "verdicts": list(comparison.verdicts),
                "differences": [asdict(d) | {"values": list(d.values)} for d in comparison.differences],
                "candidates": rows,
            }
        ),
    )


def _text(comparison: Comparison, columns: Sequence[TextColumn], width: int) -> str:
    letters = _letters(comparison)
    parts = [
        "\n".join(f"{letter}: {one_line(label)}" for letter, label in zip(letters, comparison.labels, strict=True))
    ]
    if comparison.differences:
        parts.append("what differs\n" + "\n".join(_difference_lines(comparison.differences, letters)))
    else:
        parts.append("hardware, software, workload and job are the same")
    if comparison.candidates:
        table = render(columns, width, sys.stdout.encoding)
        parts.append(table + "\n\n+ faster, - slower beyond both 95 % intervals; = within them")
    parts.append("\n".join(comparison.verdicts))
    return "\n\n".join(parts)


def _difference_lines(differences: Sequence[Difference], letters: Sequence[str]) -> Iterator[str]:
    for difference in differences:
        name = difference.name.replace("_", " ")
        in_bytes = difference.name.endswith("_bytes")
        values = [
            "not known" if value is None else format_bytes(int(value)) if in_bytes else one_line(value)
            for value in difference.values
        ]
        yield f"  {difference.topic}, {name}: " + "; ".join(
            f"{letter} {value}" for letter, value in zip(letters, values, strict=True)
        )


def _columns(comparison: Comparison) -> Iterator[TextColumn]:
    items = comparison.candidates
    yield left("candidate", (_short(item) for item in items))
    for i, letter in enumerate(_letters(comparison)):
        yield right(f"{letter} samples/s", (_rate(item.records[i]) for item in items))
        yield right(f"{letter} ±", (_spread(item.records[i]) for item in items), drop=1)
        if i:
            yield right(f"{letter}/A", (_relative(item, i) for item in items))
    for i, letter in enumerate(_letters(comparison)):
        yield right(f"{letter} peak", (_peak(item.records[i]) for item in items), drop=10 - i)


def _letters(comparison: Comparison) -> list[str]:
    return [chr(ord("A") + i) if i < 26 else f"S{i + 1}" for i in range(len(comparison.labels))]


def _short(item: CandidateComparison) -> str:
    c = item.candidate
    words = [
        f"{c.micro_batch} x {c.accumulation_steps}",
        (c.precision or "").removeprefix("mixed_"),
        c.execution if c.accumulation_steps > 1 else "",
        "jit" if c.jit_compile else "",
        "recompute" if c.recompute else "",
    ]
    return " ".join(filter(None, words))


def _relative(item: CandidateComparison, i: int) -> str:
    sign = _SIGNS.get(item.changes[i] or "", "")
    return f"{factor(item.relative_samples_per_s[i])} {sign}".rstrip()


def _rate(record: TrialRecord | None) -> str:
    return format_rate(record.samples_per_s if record else None)


def _spread(record: TrialRecord | None) -> str:
    measured = record.outcome.throughput if record else None
    return share(half_width(measured)) if measured else "-"


def _peak(record: TrialRecord | None) -> str:
    return format_bytes(record.peak_bytes if record else None)
