"""Micro-batch: samples in one forward/backward pass on one replica. Accumulation steps follow from it."""

from __future__ import annotations

from autotune.core.axes import Axis


def _parse(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"micro_batch must be a whole number of at least 1, got {text!r}")
    return int(text)


def _expand(low: str, high: str) -> range:
    first, last = _parse(low), _parse(high)
    if first > last:
        raise ValueError(f"micro_batch={low}..{high} is empty: write the smaller number first")
    return range(first, last + 1)


def balanced_sizes(replica_batch: int, alignment: int = 1) -> tuple[int, ...]:
    """Returns the micro-batches worth running, largest first: one per number of accumulation steps.

    For each number of steps it is the smallest micro-batch that needs no further step, so that the last one holds
    nearly as much as the others; rounded up to ``alignment`` where that keeps the number of steps.

    Args:
        replica_batch: samples of one update on one replica.
        alignment: multiple that the device prefers (8 on Tensor Cores).
    """
    sizes = []
    steps = 1
    while steps <= replica_batch:
        balanced = -(-replica_batch // steps)
        aligned = -(-balanced // alignment) * alignment
        keeps_steps = aligned <= replica_batch and -(-replica_batch // aligned) == steps
        sizes.append(aligned if keeps_steps else balanced)
        if balanced == 1:
            break
        steps = -(-replica_batch // (balanced - 1))  # the next number of steps that has a smaller balanced size
    return tuple(dict.fromkeys(sizes))


AXIS = Axis(
    name="micro_batch",
    order=0,
    summary="samples per forward/backward pass; accumulation steps follow, the global batch stays exact",
    parse=_parse,
    defaults=lambda device_kind: (),  # generated from the global batch
    expand=_expand,
)
