"""A LaTeX table (package ``booktabs``), to paste into a paper."""

from __future__ import annotations

from autotune.report.sheet import Sheet

_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "±": r"$\pm$",
    }
)


def render(sheet: Sheet) -> bytes:
    """Returns the rounded table."""
    columns = [column for column in sheet.columns if any(column.cells)]
    alignment = "".join("r" if column.align == "right" else "l" for column in columns)
    rows = [_row(cells) for cells in zip(*(column.cells for column in columns), strict=True)]
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _row([column.header for column in columns]),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: list[str] | tuple[str, ...]) -> str:
    # A row that begins with "*" or "[" would be read as a part of the line break before it.
    escaped = [" ".join(cell.split()).translate(_ESCAPES) for cell in cells]
    return " & ".join(f"{{}}{cell}" if cell.startswith(("[", "*")) else cell for cell in escaped) + r" \\"
