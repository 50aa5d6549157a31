"""Parquet, with pandas' nullable types."""

from __future__ import annotations

from autotune.report.files import parquet_bytes
from autotune.report.sheet import Sheet

BINARY = True


def render(sheet: Sheet) -> bytes:
    """Returns the exact table."""
    return parquet_bytes(sheet.frame)
