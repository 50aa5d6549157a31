"""Where the shipped data of ``profiles/`` lies: inside the wheel, or beside the package in a source checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def profiles_folder() -> Path:
    """Returns the folder with ``gpus.toml`` and the recorded machines."""
    installed = _PACKAGE / "_profiles"
    return installed if installed.is_dir() else _PACKAGE.parent / "profiles"
