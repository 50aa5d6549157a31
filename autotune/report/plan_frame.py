"""A plan as pandas tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from autotune.core.plan.needs import Need
from autotune.core.plan.score import Check
from autotune.core.plan.values import Row
from autotune.report.frames import build_frame
from autotune.report.plan_columns import CHECK_COLUMNS, NEED_COLUMNS, PLAN_COLUMNS, cells


def plan_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Returns one row per answer (columns: ``docs/plan.md``)."""
    return build_frame(PLAN_COLUMNS, cells(PLAN_COLUMNS, rows))


def needs_frame(needs: Sequence[Need], boards: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    """Returns one row per program: the memory that one micro-batch needs, and how many boards have it."""
    return build_frame(NEED_COLUMNS, cells(NEED_COLUMNS, list(zip(needs, boards, strict=True))))


def checks_frame(checks: Sequence[Check]) -> pd.DataFrame:
    """Returns one row per figure that was predicted and measured."""
    return build_frame(CHECK_COLUMNS, cells(CHECK_COLUMNS, checks))
