"""One module per report format, found by its file name.

Each has ``render(sheet) -> bytes`` and, where a terminal cannot show the result, ``BINARY = True``. Exact formats (csv,
parquet, json) take ``sheet.frame`` or ``sheet.document``; the others take what is rounded for people.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def format_names() -> list[str]:
    """Returns the names of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_format(name: str) -> ModuleType:
    """Returns the module behind one format."""
    return importlib.import_module(f"{__name__}.{name}")
