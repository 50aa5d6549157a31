"""From readings of an allocator to one peak. Pure.

An allocator's own peak wanders by several percent between equal runs: buffers are released a moment late, and a free
chunk that is somewhat too large is handed out whole. Both only ever *add*, so that what a program needs is the least of
its repeats. What is not a repeat (a window whose graph was prepared anew, and may run in another order) counts in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRST_WINDOW = "first window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes in use over one stretch of a pass.

    Attributes:
        name: what ran; spans of one name are repeats of the same.
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

    What the first window leaves behind (optimizer slots, accumulators) stays for all later ones: it is counted on top
    of that window's own peak, at which it may not have been there yet.
    """
    needs: dict[str, int] = {}
    for span in spans:
        need = span.peak + (max(0, span.after - span.before) if span.name == FIRST_WINDOW else 0)
        needs[span.name] = min(need, needs.get(span.name, need))
    return max(needs.values(), default=None)
