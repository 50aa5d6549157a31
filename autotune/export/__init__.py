"""The tuned settings as lines for another program. One module per target, found by its file name.

Each has ``HELP`` (one line) and ``render(config) -> str``.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def target_names() -> list[str]:
    """Returns the names of all targets."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_target(name: str) -> ModuleType:
    """Returns the module behind one target."""
    return importlib.import_module(f"{__name__}.{name}")
