"""What the charts share: colours, scales, tooltips.

Colours are Okabe and Ito's ("Color Universal Design", 2008), which colour-blind readers can tell apart; shapes say the
same a second time. They hold on white and on near-black.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from autotune.core.units import format_rate

# Blue, vermilion, green, purple, orange, sky blue, grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
GREY = "#7F7F7F"
LIMIT_COLOUR = "#D55E00"


def values(rows: Sequence[Any]) -> Any:
    """Plain rows as chart data."""
    return alt.Data(values=list(rows))


def colour(names: Sequence[str], field: str) -> Any:
    """One colour per name, the same wherever the names are the same."""
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    return alt.Color(f"{field}:N", title=field, scale=alt.Scale(domain=list(names), range=colours))


def shape(names: Sequence[str], field: str) -> Any:
    """One shape per name."""
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(names))]
    return alt.Shape(f"{field}:N", title=field, scale=alt.Scale(domain=list(names), range=shapes))


def from_zero(numbers: Iterable[float]) -> Any:
    """A scale from 0 with room above the largest number."""
    return alt.Scale(domain=[0, 1.12 * max(numbers, default=0.0) or 1], nice=False)


def powers() -> Any:
    """A scale of powers of two, with room at both ends."""
    return alt.Scale(type="log", base=2, padding=16, nice=False)


def tooltip(**fields: str) -> list[Any]:
    """Texts shown beside the pointer: field name to heading."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()]


def interval(rate: float, low: float, high: float) -> str:
    """``12,310 (12,200 to 12,400)``."""
    return f"{format_rate(rate)} ({format_rate(low)} to {format_rate(high)})"


def byte_unit(largest: float) -> tuple[str, int]:
    """Returns the unit, and its bytes, that suits an axis up to ``largest`` bytes."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if largest >= 2 * scale:
            return unit, scale
    return "bytes", 1
