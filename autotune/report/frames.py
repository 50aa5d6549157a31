"""The study as pandas tables with nullable dtypes: what was not measured is ``NA``, whole numbers stay whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from autotune.core.study import Study
from autotune.report.accumulation import ACCUMULATION_COLUMNS, accumulation_cells
from autotune.report.columns import TRIAL_COLUMNS, Column, front_records, trial_columns, trial_rows


def trials_frame(study: Study) -> pd.DataFrame:
    """Returns all trials, one row each in order of their numbers (columns: ``docs/columns.md``)."""
    return build_frame(trial_columns(study), trial_rows(study, study.records))


def pareto_frame(study: Study) -> pd.DataFrame:
    """Returns the trials on the memory/throughput front, smallest peak first; columns as in :func:`trials_frame`."""
    return build_frame(trial_columns(study), trial_rows(study, front_records(study)))


def accumulation_frame(study: Study) -> pd.DataFrame:
    """Returns one row per precision and number of accumulation steps, relative to no accumulation."""
    return build_frame(ACCUMULATION_COLUMNS, accumulation_cells(study))


def build_frame(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Returns ``rows`` as a table with exactly ``columns``, in their order and with their dtypes."""
    return pd.DataFrame({c.name: pd.array([row[c.name] for row in rows], dtype=c.dtype) for c in columns})


def read_trials_csv(path: str | Path) -> pd.DataFrame:
    """Reads ``trials.csv`` or ``pareto.csv`` back, equal to the table it was written from."""
    texts = pd.read_csv(path, dtype="string", keep_default_na=False, na_values=[""])
    known = {column.name: str(column.dtype) for column in TRIAL_COLUMNS}
    # Columns beyond the fixed ones are phases, in seconds. From text, because pandas' own parser rounds the last digit.
    return pd.DataFrame({name: _typed(texts[name], known.get(name, "Float64")) for name in texts.columns})


def _typed(texts: pd.Series[str], dtype: str) -> Any:
    if dtype == "string":
        return texts
    read: Any = {"Int64": int, "Float64": float, "boolean": lambda text: text == "True"}[dtype]
    return pd.array([pd.NA if pd.isna(text) else read(text) for text in texts], dtype=dtype)  # type: ignore[call-overload]
