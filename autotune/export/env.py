"""``KEY=VALUE`` lines, for a shell or a container's environment file."""

from __future__ import annotations

import shlex

from autotune.config import TunedConfig
from autotune.export._settings import named_settings

HELP = "KEY=VALUE lines: set -a; . tuned.env; or docker --env-file"


def render(config: TunedConfig) -> str:
    """Returns one line per setting; booleans are 1 and 0."""
    lines = []
    for name, value in named_settings(config).items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        lines.append(f"AUTOTUNE_{name.upper()}={shlex.quote(text)}")
    return "\n".join(lines) + "\n"
