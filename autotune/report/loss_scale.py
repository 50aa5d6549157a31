"""The loss-scale table: what the chosen initial scale and others do, as text and as HTML."""

from __future__ import annotations

import sys
from html import escape

from autotune.core.loss_scale_choice import ScaleRow
from autotune.core.study import Study
from autotune.report.layout import left, render, right
from autotune.report.words import share

_HEADS = ("loss scale", "", "underflow", "skipped", "first applied", "settles at")


def loss_scale_table(study: Study, width: int = 80, encoding: str | None = None) -> str | None:
    """Returns the loss scales that were tried, for people; None where none were."""
    if study.loss_scale is None:
        return None
    cells = [_cells(row) for row in study.loss_scale.rows]
    columns = [right(_HEADS[0], (c[0] for c in cells)), left("which", (c[1] for c in cells))]
    columns += [right(head, (c[i] for c in cells), drop=6 - i) for i, head in enumerate(_HEADS) if i > 1]
    return render(columns, width, encoding or sys.stdout.encoding)


def loss_scale_html(study: Study) -> str:
    """Returns the same table for the report page; nothing where no scale was looked for."""
    found = study.loss_scale
    if found is None:
        return ""
    head = "".join(f'<th scope="col"{"" if i == 1 else " class=number"}>{h}</th>' for i, h in enumerate(_HEADS))
    body = "".join(
        "<tr>"
        + "".join(f"<td{'' if i == 1 else ' class=number'}>{escape(text)}</td>" for i, text in enumerate(_cells(row)))
        + "</tr>"
        for row in found.rows
    )
    return (
        "<section><h2>The initial loss scale</h2>"
        f'<p class="hint">Found with {found.backward_passes} backward passes at the initial weights: the largest power '
        f"of two with finite gradients, less {found.headroom_bits} bits. Underflow is the share of float16 gradient "
        "values that round to zero, of those that do not at the largest finite scale.</p>"
        '<div class="scroll" role="region" aria-label="Loss scale" tabindex="0">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _cells(row: ScaleRow) -> tuple[str, ...]:
    ran = row.updates is not None
    return (
        f"{row.scale:g}",
        "no scaling" if row.role == "none" else row.role,
        "overflows" if row.underflow_share is None else share(row.underflow_share),
        f"{row.updates_skipped} of {row.updates}" if ran else "not run",
        ("never" if row.first_applied is None else str(row.first_applied)) if ran else "-",
        "-" if row.final_scale is None else f"{row.final_scale:g}",
    )
