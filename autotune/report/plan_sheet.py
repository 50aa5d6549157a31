"""A plan as what every report format renders: exact, rounded for people, and as a JSON document."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autotune.core.plan.needs import Need
from autotune.core.plan.parts import Decomposition
from autotune.core.plan.score import Check, Score
from autotune.core.plan.values import Range, Row
from autotune.core.units import format_bytes, format_rate
from autotune.report.layout import TextColumn, left, render, right
from autotune.report.plan_columns import CHECK_COLUMNS, NEED_COLUMNS, PLAN_COLUMNS, cells
from autotune.report.plan_frame import checks_frame, needs_frame, plan_frame
from autotune.report.sheet import SCHEMA_VERSION, Sheet, finite
from autotune.report.words import one_line


def plan_sheet(
    title: str,
    rows: Sequence[Row],
    *,
    decomposition: Decomposition | None = None,
    notes: Sequence[str] = (),
    width: int = 80,
) -> Sheet:
    """Returns a plan's answers.

    Args:
        title: in one line.
        rows: the answers.
        decomposition: of the first row's peak, where known.
        notes: sentences about the plan as a whole.
        width: columns of the terminal.
    """
    columns = _plan_columns(rows)
    table = render(columns, width, sys.stdout.encoding) if rows else "no GPU was asked about"
    reasons = [f"{_name(row)}: {row.why_not}" for row in rows if row.why_not]
    parts = [title, table, "\n".join(reasons), _decomposition_text(decomposition), _notes(notes)]
    document = {"schema_version": SCHEMA_VERSION, "rows": cells(PLAN_COLUMNS, rows), "notes": list(notes)}
    if decomposition is not None:
        document["decomposition"] = {name: value for name, value, _ in _decomposed(decomposition)}
    return Sheet(
        title=title,
        frame=plan_frame(rows),
        columns=columns,
        text="\n\n".join(filter(None, parts)),
        document=finite(document),
    )


def needs_sheet(
    title: str,
    needs: Sequence[Need],
    boards: Sequence[tuple[str, ...]],
    *,
    notes: Sequence[str] = (),
    width: int = 80,
) -> Sheet:
    """Returns the memory that one micro-batch needs; arguments as for :func:`plan_sheet`."""
    columns = (
        right("micro-batch", (str(n.micro_batch) for n in needs)),
        left("program", (n.program.describe() for n in needs)),
        right("peak", (_sizes(n.peak) for n in needs)),
        right("must be usable", (format_bytes(n.usable_bytes) for n in needs)),
        left("smallest GPU", (b[0] if b else "none" for b in boards)),
        left("basis", (n.basis for n in needs), drop=1),
    )
    pairs = list(zip(needs, boards, strict=True))
    table = render(columns, width, sys.stdout.encoding) if needs else "no program of the study can be forecast there"
    return Sheet(
        title=title,
        frame=needs_frame(needs, boards),
        columns=columns,
        text="\n\n".join(filter(None, (title, table, _notes(notes)))),
        document=finite({"schema_version": SCHEMA_VERSION, "rows": cells(NEED_COLUMNS, pairs), "notes": list(notes)}),
    )


def checks_sheet(
    title: str, checks: Sequence[Check], scores: dict[str, Score], *, notes: Sequence[str] = (), width: int = 80
) -> Sheet:
    """Returns forecasts against measurements; arguments as for :func:`plan_sheet`."""
    columns = (
        left("candidate", (c.name for c in checks)),
        left("figure", (c.what for c in checks), drop=2),
        left("where", ("beyond" if c.beyond else "between" for c in checks)),
        right("predicted", (_figure(c, c.predicted.expected) for c in checks)),
        right(
            "90 % range", (f"{_figure(c, c.predicted.low)} to {_figure(c, c.predicted.high)}" for c in checks), drop=1
        ),
        right("measured", (c.reason or "-" if c.measured is None else _figure(c, c.measured) for c in checks)),
        right("error", ("-" if c.error is None else f"{100 * c.error:+.1f} %" for c in checks)),
        left("held", ("-" if c.held is None else "yes" if c.held else "no" for c in checks)),
    )
    table = render(columns, width, sys.stdout.encoding) if checks else "nothing was run"
    sentences = [found.sentence(name) for name, found in scores.items()]
    document = {
        "schema_version": SCHEMA_VERSION,
        "rows": cells(CHECK_COLUMNS, checks),
        "scores": {
            name: {
                "count": s.count,
                "median_error": s.median_error,
                "worst_error": s.worst_error,
                "coverage": s.coverage,
            }
            for name, s in scores.items()
        },
        "notes": list(notes),
    }
    return Sheet(
        title=title,
        frame=checks_frame(checks),
        columns=columns,
        text="\n\n".join(filter(None, (title, table, "\n".join(sentences), _notes(notes)))),
        document=finite(document),
    )


def _plan_columns(rows: Sequence[Row]) -> tuple[TextColumn, ...]:
    several = any(row.count > 1 for row in rows)
    asked = any(row.hours for row in rows)
    return (
        left("gpu", (row.gpu for row in rows)),
        *([right("count", (str(row.count) for row in rows))] if several else []),
        left("fits", ("yes" if row.fits else "no" for row in rows)),
        right("micro x steps", (_split(row) for row in rows)),
        left("program", (_program(row) for row in rows), drop=3),
        right("peak", (_sizes(row.peak_bytes) for row in rows)),
        right("usable", (format_bytes(row.usable_bytes) for row in rows), drop=4),
        *(
            [right("samples/s", (_span(row.samples_per_s, format_rate) for row in rows), drop=6)]
            if any(row.samples_per_s for row in rows)
            else []
        ),
        *([right("hours", (_span(row.hours, _number) for row in rows))] if asked else []),
        *([right("cost", (_span(row.cost, _number) for row in rows))] if any(row.cost for row in rows) else []),
        *([right("kWh", (_span(row.kwh, _number) for row in rows), drop=2)] if any(row.kwh for row in rows) else []),
        left("basis", (row.basis for row in rows), drop=1),
    )


def _name(row: Row) -> str:
    return f"{row.count} x {row.gpu}" if row.count > 1 else row.gpu


def _split(row: Row) -> str:
    return "-" if row.micro_batch is None else f"{row.micro_batch} x {row.accumulation_steps}"


def _program(row: Row) -> str:
    if row.precision is None and row.execution is None:
        return "-"
    words = [(row.precision or "").removeprefix("mixed_"), (row.execution or "") if row.accumulation_steps != 1 else ""]
    words += ["jit" if row.jit_compile else "", "recomputed" if row.recompute else ""]
    return " ".join(filter(None, words)) or "-"


def _sizes(peak: Range | None) -> str:
    if peak is None:
        return "-"
    if peak.low == peak.high:
        return format_bytes(peak.expected)
    return f"{format_bytes(peak.expected)} ({format_bytes(peak.low)} to {format_bytes(peak.high)})"


def _span(found: Range | None, say: object) -> str:
    if found is None or not callable(say):
        return "-"
    return f"{say(found.expected)} ({say(found.low)} to {say(found.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _held(check: Check) -> str:
    return f"{_figure(check, check.predicted.low)} to {_figure(check, check.predicted.high)}"


def _figure(check: Check, value: float) -> str:
    return format_bytes(value) if check.what == "peak" else format_rate(value)


def _notes(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {one_line(note)}" for note in notes)


def _decomposed(parts: Decomposition) -> list[tuple[str, int, str]]:
    return [
        ("weight_bytes", parts.weight_bytes, "weights"),
        ("optimizer_bytes", parts.optimizer_bytes, "optimizer state"),
        ("accumulator_bytes", parts.accumulator_bytes, "accumulators"),
        ("window_bytes", parts.window_bytes, "the window's data"),
        ("activation_bytes", parts.activation_bytes, "activations (grow with the micro-batch)"),
        ("rest_bytes", parts.rest_bytes, "gradients on their way, workspace, rounding"),
    ]


def _decomposition_text(parts: Decomposition | None) -> str:
    if parts is None:
        return ""
    listed = ", ".join(f"{format_bytes(size)} {words}" for _, size, words in _decomposed(parts) if size)
    return f"the first row's peak: {listed}"
