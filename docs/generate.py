"""Writes the parts of the documentation that are made from the code: ``python docs/generate.py``."""

from __future__ import annotations

import json
from pathlib import Path

from autotune.config.schema import json_schema
from autotune.report.reference import columns_markdown

FOLDER = Path(__file__).parent


def generated() -> dict[str, str]:
    """Returns the content of each generated file, by name."""
    return {
        "columns.md": columns_markdown(),
        "tuned.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }


if __name__ == "__main__":
    for name, text in generated().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
