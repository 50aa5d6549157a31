"""What a larger or smaller global batch asks of the learning rate: advice with its sources, nothing that is applied.

Splitting the *same* global batch into micro-batches changes neither the gradient nor its noise, so it asks for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RuleName = Literal["none", "sqrt", "linear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: ``none``, ``sqrt`` or ``linear``.
        factor: what the base batch's learning rate is multiplied by.
        holds: when the rule holds.
        source: where it comes from.
    """

    name: RuleName
    factor: float
    holds: str
    source: str


def learning_rate_rules(base_batch: int, global_batch: int) -> tuple[Rule, ...]:
    """Returns the rules for going from ``base_batch``, whose learning rate is known, to ``global_batch``.

    Micro-batch and accumulation steps do not enter: 64 samples in one step, accumulated over 4 steps, are a global
    batch of 256 and a factor of 2 by the square-root rule; 256 samples cut into 4 are a factor of 1.

    Raises:
        ValueError: a batch below 1.
    """
    if base_batch < 1 or global_batch < 1:
        raise ValueError(f"batches are at least 1, got {base_batch} and {global_batch}")
    ratio = global_batch / base_batch
    return (
        Rule(
            name="none",
            factor=1.0,
            holds="the batch stays the same, or lies above the critical batch size, where a larger one no longer helps",
            source="McCandlish et al. 2018, arXiv 1812.06162",
        ),
        Rule(
            name="sqrt",
            factor=math.sqrt(ratio),
            holds="Adam, AdamW and other adaptive optimizers; their 1 - beta are multiplied by the batch's ratio",
            source="Malladi et al. 2022, arXiv 2205.10287",
        ),
        Rule(
            name="linear",
            factor=ratio,
            holds="SGD with momentum, with some epochs of warm-up, up to batches of a few thousand",
            source="Goyal et al. 2017, arXiv 1706.02677",
        ),
    )


def advice(base_batch: int, global_batch: int) -> str | None:
    """Returns the rules in one sentence for people; None where the batch did not change."""
    if base_batch == global_batch:
        return None
    rules = {rule.name: rule for rule in learning_rate_rules(base_batch, global_batch)}
    sqrt, linear = rules["sqrt"], rules["linear"]
    return (
        f"global batch {global_batch} instead of {base_batch}: multiply the learning rate by {sqrt.factor:.3g} for "
        f"Adam and kin (square root: {sqrt.source}), by {linear.factor:.3g} for SGD with momentum and warm-up (linear: "
        f"{linear.source}), by 1 above the critical batch size ({rules['none'].source}); throughput says nothing about "
        "how many samples training then needs"
    )
