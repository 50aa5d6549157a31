"""JSON: all tables of the study, null for a missing value."""

from __future__ import annotations

import json

from autotune.report.sheet import Sheet


def render(sheet: Sheet) -> bytes:
    """Returns the document."""
    return (json.dumps(sheet.document, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
