"""From readings of an allocator to one peak. Pure.

An allocator's own peak wanders by several percent between equal runs: buffers are released a moment late, and a free
chunk that is somewhat too large is handed out whole. Both only ever *add*, so that what a program needs is the least of
its repeats. A window whose graph was prepared anew may run in another order: another part, with repeats of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_WINDOW = "first window"
REORDERED = "reordered window"


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
    """Returns the bytes that a pass needs: the largest of its parts, each taken as the least of its repeats.

    A reordered window finds what all graphs before it have left (each keeps its constants for good), and counts as if
    it had been the first.
    """
    base = next((s.before for s in spans if s.name == FIRST_WINDOW), 0)
    repeats: dict[str, list[int]] = {}
    for span in spans:
        left = span.before - base if span.name.startswith(REORDERED) else 0
        repeats.setdefault(span.name, []).append(span.peak - left)
    return max(map(min, repeats.values()), default=None)
