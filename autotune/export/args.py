"""Command line flags, for any script."""

from __future__ import annotations

import shlex

from autotune.config import TunedConfig
from autotune.export._settings import named_settings

HELP = "flags on one line: python train.py $(autotune export tuned.toml --to args)"


def render(config: TunedConfig) -> str:
    """Returns the settings as flags; booleans as ``--jit-compile`` and ``--no-jit-compile``."""
    flags = []
    for name, value in named_settings(config).items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{option}" if value else f"--no-{option}")
        else:
            flags += [f"--{option}", shlex.quote(str(value))]
    return " ".join(flags) + "\n"
