"""Lays columns of text out in a given width, by dropping the least important."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size

from autotune.report.words import encodable

_GAP = "  "
_RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """One column of a text table.

    Attributes:
        drop: of the columns with a number, the lowest is dropped first when the table is too wide.
    """

    header: str
    cells: tuple[str, ...]
    align: Literal["left", "right"] = "right"
    drop: int | None = None

    @property
    def width(self) -> int:
        """Terminal cells that the column needs."""
        return max(map(cell_len, (self.header, *self.cells)))


def right(header: str, cells: Iterable[str], drop: int | None = None) -> TextColumn:
    """A column of numbers."""
    return TextColumn(header=header, cells=tuple(cells), drop=drop)


def left(header: str, cells: Iterable[str], drop: int | None = None) -> TextColumn:
    """A column of words."""
    return TextColumn(header=header, cells=tuple(cells), align="left", drop=drop)


def render(
    columns: Sequence[TextColumn],
    width: int,
    encoding: str,
    styles: Sequence[str] | None = None,
    notes: Sequence[str] | None = None,
    notes_from: str = "",
) -> str:
    """Returns ``columns`` as aligned lines of at most ``width`` cells, as far as dropping and cutting can reach that.

    Args:
        columns: all of the same length; one without header and content is left out.
        width: cells of the terminal.
        encoding: what the text must survive.
        styles: an escape sequence per row, or an empty string.
        notes: per row, a sentence that takes the place of the columns from ``notes_from`` on, or an empty string.
        notes_from: header of the first column that a note covers.
    """
    kept = [_encodable(c, encoding) for c in columns if c.header or any(c.cells)]
    while _width(kept) > width and any(c.drop is not None for c in kept):
        least = min((c for c in kept if c.drop is not None), key=lambda c: c.drop or 0)
        kept = [c for c in kept if c is not least]
    before = next((i for i, c in enumerate(kept) if c.header == notes_from), len(kept))
    lines = [_line([c.header for c in kept], kept)]
    for i, cells in enumerate(zip(*(c.cells for c in kept), strict=True)):
        note = encodable(notes[i], encoding) if notes else ""
        line = _line([*cells[:before], note], kept) if note else _line(cells, kept)
        line = cut(line, max(width, _width(kept)), encodable("…", encoding))
        lines.append(f"{styles[i]}{line}{_RESET}" if styles and styles[i] else line)
    return "\n".join(lines)


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Returns ``text`` in at most ``width`` cells, with an ellipsis where something was cut off."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - cell_len(ellipsis))).rstrip() + ellipsis


def _encodable(column: TextColumn, encoding: str) -> TextColumn:
    # Before the layout: "±" becomes the wider "+/-" where the encoding lacks it.
    cells = tuple(encodable(cell, encoding) for cell in column.cells)
    return TextColumn(header=encodable(column.header, encoding), cells=cells, align=column.align, drop=column.drop)


def _width(columns: Sequence[TextColumn]) -> int:
    return sum(c.width for c in columns) + len(_GAP) * (len(columns) - 1)


def _line(cells: Sequence[str], columns: Sequence[TextColumn]) -> str:
    padded = []
    for cell, column in zip(cells, columns, strict=False):  # a note stands for all columns that it covers
        blank = " " * (column.width - cell_len(cell))
        padded.append(cell + blank if column.align == "left" else blank + cell)
    return _GAP.join(padded).rstrip()
