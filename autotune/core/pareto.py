"""The memory/throughput front of a study."""

from __future__ import annotations

import math
from collections.abc import Iterable

from autotune.core.trial import TrialRecord


def usable(record: TrialRecord, memory_limit_bytes: int | None = None) -> bool:
    """Returns True where a trial completed, was timed, and kept within the limit.

    An unknown peak is not held against it.
    """
    if not record.completed or record.samples_per_s is None:
        return False
    return memory_limit_bytes is None or record.peak_bytes is None or record.peak_bytes <= memory_limit_bytes


def pareto_front(records: Iterable[TrialRecord], memory_limit_bytes: int | None = None) -> tuple[int, ...]:
    """Returns the numbers of the trials that no other trial beats in both peak and throughput, in order of their peaks.

    A trial whose peak was not measured cannot be placed and is not on the front. Of two equal trials the earlier stays.
    """
    placed = [r for r in records if usable(r, memory_limit_bytes) and r.peak_bytes is not None]
    front: list[int] = []
    fastest = 0.0
    for record in sorted(placed, key=lambda r: (r.peak_bytes or 0, -(r.samples_per_s or 0.0), r.number)):
        if (record.samples_per_s or 0.0) > fastest:
            fastest = record.samples_per_s or 0.0
            front.append(record.number)
    return tuple(front)


def knee(records: Iterable[TrialRecord], memory_limit_bytes: int | None = None) -> int | None:
    """Returns the number of the front's trial that lies farthest above the straight line between its two ends.

    Peak and throughput are compared on logarithmic scales, so that equal steps are equal factors. A front of one or two
    trials has no knee: its fast end is returned. None where the front is empty.
    """
    everything = tuple(records)
    by_number = {r.number: r for r in everything}
    front = [by_number[number] for number in pareto_front(everything, memory_limit_bytes)]
    if len(front) < 3:
        return front[-1].number if front else None
    points = [(math.log(r.peak_bytes or 1), math.log(r.samples_per_s or 1.0), r.number) for r in front]
    (x0, y0, _), (x1, y1, _) = points[0], points[-1]
    return max(points, key=lambda p: (p[1] - y0) / (y1 - y0) - (p[0] - x0) / (x1 - x0))[2]
