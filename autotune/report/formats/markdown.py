"""A Markdown table, to paste into a pull request."""

from __future__ import annotations

from autotune.report.sheet import Sheet

# What would start markup inside a cell.
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\|*`[]"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def render(sheet: Sheet) -> bytes:
    """Returns the rounded table."""
    columns = [column for column in sheet.columns if any(column.cells)]
    lines = [
        _line([column.header for column in columns]),
        "|" + "|".join("---:" if column.align == "right" else ":---" for column in columns) + "|",
        *(_line(cells) for cells in zip(*(column.cells for column in columns), strict=True)),
    ]
    return ("\n".join(lines) + "\n").encode()


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(cell.translate(_ESCAPES).split()) for cell in cells) + " |"
