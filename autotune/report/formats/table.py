"""For the terminal: aligned text."""

from __future__ import annotations

import sys

from autotune.report.sheet import Sheet
from autotune.report.words import encodable


def render(sheet: Sheet) -> bytes:
    """Returns the sheet's text, as standard output can show it."""
    encoding = sys.stdout.encoding
    return (encodable(sheet.text, encoding) + "\n").encode(encoding)
