"""CSV: UTF-8, full precision, an empty field for a missing value."""

from __future__ import annotations

from autotune.report.files import csv_bytes
from autotune.report.sheet import Sheet


def render(sheet: Sheet) -> bytes:
    """Returns the exact table."""
    return csv_bytes(sheet.frame)
