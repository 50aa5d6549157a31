"""The reference of all columns (``docs/columns.md``), written from the lists that the tables are made of."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.report.accumulation import ACCUMULATION_COLUMNS
from autotune.report.columns import TRIAL_COLUMNS, Column
from autotune.report.compare import COMPARISON_COLUMNS

_TITLE = """# Columns

What every column of autotune's tables means. A value that was not measured is missing (an empty field in CSV, `NA` in
pandas, null in JSON), never 0; whole numbers are whole. Units stand in the names: `_bytes`, `_s` (seconds), `_per_s`.
This page is written from the code by `python docs/generate.py`.
"""


def columns_markdown() -> str:
    """Returns the reference as Markdown."""
    parts = [
        _TITLE,
        _section(
            "trials.csv, trials.parquet, `study.trials`",
            "One row per trial, in order of their numbers. `pareto.csv` and `study.pareto` have the same columns for "
            "the trials on the memory/throughput front, smallest peak first.",
            TRIAL_COLUMNS,
        ),
        "After these, `phase_NAME_s` for every phase that a trial of the study recorded: seconds spent in it.\n",
        _section(
            "`study.accumulation`, `autotune report STUDY --table accumulation`",
            "One row per precision and number of accumulation steps, at the same global batch: the fastest trial of "
            "each, relative to the fastest with one step in the same precision.",
            ACCUMULATION_COLUMNS,
        ),
        _section(
            "`autotune report A B --format csv`",
            "One row per candidate that completed in two studies or more, and study.",
            COMPARISON_COLUMNS,
        ),
    ]
    return "\n".join(parts)


def _section(title: str, intro: str, columns: Iterable[Column]) -> str:
    rows = "\n".join(f"| `{c.name}` | {c.dtype} | {c.meaning} |" for c in columns)
    return f"## {title}\n\n{intro}\n\n| column | type | meaning |\n|---|---|---|\n{rows}\n"
