"""From readings of an allocator to one peak. Pure.

An allocator's own peak wanders by several percent between equal runs: buffers are released a moment late, and a free
chunk that is somewhat too large is handed out whole. Both only ever *add*, so that what a program needs is the least of
its repeats. A window whose graph was prepared anew may run in another order: another part, with repeats of its own. Of
orders, the largest that another one comes close to is what counts: of the preparations of one step, one in thirty was
seen to need 5 % more than all others, and a figure that hangs on meeting that one does not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

FIRST_WINDOW = "first window"
WINDOW = "window"
REORDERED = "reordered window"
_CLOSE = 1.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes in use over one stretch of a pass.

    Attributes:
        name: what ran; spans of one name are repeats of the same. Names of windows whose graph was prepared anew begin
            with :data:`REORDERED`.
        before: at its start.
        peak: highest during it.
        after: at its end.
    """

    name: str
    before: int
    peak: int
    after: int


def settled_peak(spans: Sequence[Span]) -> int | None:
    """Returns the bytes that a pass needs: the largest of its parts, each taken as the least of its repeats."""
    orders = order_peaks(spans)
    parts: dict[str, list[int]] = {}
    for span in spans:
        if not _is_order(span):
            parts.setdefault(span.name, []).append(span.peak)
    return max([*map(min, parts.values()), *([confirmed(orders)] if orders else [])], default=None)


def order_peaks(spans: Sequence[Span]) -> tuple[int, ...]:
    """Returns what a window needs in each order that it was run in, oldest first.

    A reordered window finds what all graphs before it have left (each keeps its constants for good), and counts as if
    it had been the first.
    """
    base = next((s.before for s in spans if s.name == FIRST_WINDOW), 0)
    repeats: dict[str, list[int]] = {}
    for span in spans:
        if _is_order(span):
            left = span.before - base if span.name.startswith(REORDERED) else 0
            repeats.setdefault(span.name, []).append(span.peak - left)
    return tuple(map(min, repeats.values()))


def confirmed(orders: Sequence[int]) -> int:
    """Returns the largest that another is within 1 % of; the largest where all differ."""
    falling = sorted(orders, reverse=True)
    return next((a for a, b in pairwise(falling) if a <= _CLOSE * b), falling[0])


def _is_order(span: Span) -> bool:
    return span.name == WINDOW or span.name.startswith(REORDERED)
