"""What a report format renders: the same content exact, rounded for people, and as a JSON document."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd

from autotune.core.codec import to_plain
from autotune.core.study import Study
from autotune.report.accumulation import ACCUMULATION_COLUMNS, accumulation_cells, accumulation_rows
from autotune.report.columns import front_records, trial_columns, trial_rows
from autotune.report.frames import build_frame
from autotune.report.layout import TextColumn, left, render
from autotune.report.text import (
    accumulation_columns,
    accumulation_table,
    fastest_first,
    note,
    phases_table,
    trade_off_columns,
    trade_off_table,
)
from autotune.report.words import rate_words

TableName = Literal["trials", "pareto", "accumulation"]
TABLES: tuple[TableName, ...] = get_args(TableName)
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table of a study, or of a comparison.

    Attributes:
        title: in one line.
        frame: exact values.
        columns: the same, rounded for people.
        text: complete text for a terminal.
        document: what JSON shows.
        study: the study that the report page shows; None for a comparison.
    """

    title: str
    frame: pd.DataFrame
    columns: tuple[TextColumn, ...]
    text: str
    document: dict[str, Any]
    study: Study | None = None


def study_sheet(
    study: Study, table: TableName | None = None, *, phases: bool = False, width: int = 80, color: bool = False
) -> Sheet:
    """Returns one table of a study.

    Args:
        study: what to show.
        table: which table; None shows the trials, and people the accumulation table as well.
        phases: people also see where each trial's time went.
        width: columns of the terminal.
        color: whether the terminal shows colour.
    """
    title = f"{study.name}: {table or 'trials'}"
    document = study_document(study)
    if table == "accumulation":
        rows = accumulation_rows(study)
        frame = build_frame(ACCUMULATION_COLUMNS, accumulation_cells(study))
        columns = (*accumulation_columns(rows), left("remarks", (note(row.record) for row in rows)))
    else:
        records = front_records(study) if table == "pareto" else study.records
        frame = build_frame(trial_columns(study), trial_rows(study, records))
        shown = records if table == "pareto" else fastest_first(study)
        columns = (*trade_off_columns(study, shown), left("remarks", map(note, shown))) if shown else ()
    text = _text(study, table, columns, phases, width, color)
    return Sheet(title=title, frame=frame, columns=columns, text=text, document=document, study=study)


def study_document(study: Study) -> dict[str, Any]:
    """Returns the study as plain JSON values: its tables, the choice, and what they hold for."""
    document: dict[str, Any] = finite(
        {
            "schema_version": SCHEMA_VERSION,
            "name": study.name,
            "verdict": study.verdict,
            "chosen": study.chosen,
            "confirmed": study.confirmed,
            "confirmation": to_plain(study.confirmation),
            "stop_reason": study.stop_reason,
            "command": study.command,
            "warnings": list(study.warnings),
            "job": to_plain(study.job),
            "trials": trial_rows(study, study.records),
            "pareto": trial_rows(study, front_records(study)),
            "accumulation": accumulation_cells(study),
        }
    )
    return document


def finite(value: Any) -> Any:
    """Returns plain values with None for what JSON cannot hold (infinity, not a number)."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(
    study: Study, table: TableName | None, columns: tuple[TextColumn, ...], phases: bool, width: int, color: bool
) -> str:
    if table == "accumulation":
        parts = [accumulation_table(study, width)]
    elif table == "pareto":
        parts = [render(columns, width, sys.stdout.encoding) if columns else "no trial is on the front"]
    else:
        parts = [trade_off_table(study, width, color)]
        if table is None and study.records:
            parts.append(
                "accumulation at the same global batch, against one step of the same precision (full):\n"
                + accumulation_table(study, width)
            )
        if study.verdict:
            parts.append(study.verdict)
        if study.confirmation is not None:
            parts[-1] += f"\nconfirmed in fresh processes: {rate_words(study.confirmation)}"
    if phases:
        parts.append(phases_table(study, width))
    return "\n\n".join(parts)
