"""The initial loss scale, found instead of guessed. Pure: the backward passes are run by ``worker/calibrate.py``.

float16 holds magnitudes from 2**-24 to 65504. A scale too large makes gradients infinite, and every such update is
skipped; one too small rounds them to zero. The largest power of two with finite gradients was 2**5, 2**19 and 2**32 for
three small tasks, so no constant suits all; three bits below it wasted no update of 60 in any of them (measured).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.core.settings import DEFAULT_LOSS_SCALE, LossScaleSettings

HEADROOM_BITS = 3
LOWEST_POWER = round(math.log2(LossScaleSettings().minimum))
HIGHEST_POWER = round(math.log2(LossScaleSettings().maximum))
LARGEST_FLOAT16 = 65504.0
FLUSHED_BELOW = -25  # binary exponent: smaller magnitudes round to zero, half of the smallest subnormal being a tie
_COLLAPSE = 2.0 ** -(HEADROOM_BITS + 1)
_SUMMED = (1.8, 2.2)
_DIVIDED = (0.45, 0.55)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRow:
    """What one initial loss scale does: one row of the loss-scale table.

    Attributes:
        scale: the initial loss scale.
        role: ``chosen``, ``largest finite``, ``default`` or ``none`` (scale 1), for people.
        underflow_share: share of the float16 gradient values that round to zero at this scale, of those that are not
            zero at the largest finite one; None where the gradients are not finite, or nothing was counted.
        updates: updates that were run from this scale; None where it was not run.
        updates_skipped: of those, not applied because their gradients were not finite.
        first_applied: number of the first applied update, from 1; None where none was.
        final_scale: where the dynamic scale stood after them.
    """

    scale: float
    role: str
    underflow_share: float | None = None
    updates: int | None = None
    updates_skipped: int | None = None
    first_applied: int | None = None
    final_scale: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """An initial loss scale with its evidence.

    Attributes:
        scale: the scale to start from.
        largest_finite: the largest power of two whose scaled gradients were all finite at the initial weights; None
            where there is none.
        headroom_bits: bits between the two.
        backward_passes: backward passes that finding it took.
        rows: what it and other scales do, ascending.
        warnings: what no scale can help.
    """

    scale: float
    largest_finite: float | None
    headroom_bits: int = HEADROOM_BITS
    backward_passes: int
    rows: tuple[ScaleRow, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What was seen at the initial weights that no loss scale can help.

    Attributes:
        finite_at_one: gradients are finite without scaling.
        loss_finite: the forward pass gives a finite loss.
        state_finite: what the forward pass writes (BatchNorm's statistics) stays finite.
        growth: a sample's loss in a batch of twice the size, relative to its loss before; 1 for per-sample losses.
    """

    finite_at_one: bool
    loss_finite: bool = True
    state_finite: bool = True
    growth: float = 1.0


def largest_finite_power(
    finite: Callable[[int], bool], lowest: int = LOWEST_POWER, highest: int = HIGHEST_POWER
) -> int | None:
    """Returns the largest exponent p with finite gradients at scale 2**p, by binary search (6 probes of 55 exponents).

    Args:
        finite: whether gradients at scale 2**p are all finite; holds for every p below one for which it holds.
        lowest: smallest exponent to consider.
        highest: largest one.

    Returns:
        None where not even the lowest one is finite.
    """
    below, above = lowest - 1, highest + 1  # finite at ``below`` (as far as is known), not at ``above``
    while above - below > 1:
        middle = (below + above) // 2
        if finite(middle):
            below = middle
        else:
            above = middle
    return None if below < lowest else below


def initial_scale(largest: int | None, headroom_bits: int = HEADROOM_BITS) -> float:
    """Returns the scale to start from, given the largest finite exponent; the floor where there is none."""
    power = LOWEST_POWER if largest is None else largest - headroom_bits
    return 2.0 ** max(power, LOWEST_POWER)


def underflow_share(counts: Mapping[int, int], bits: int) -> float | None:
    """Share of gradient values that round to zero once the scale is ``bits`` powers of two smaller.

    Args:
        counts: number of values by binary exponent (a value v counts at floor(log2(abs(v)))), zeros left out, as they
            are at the scale that was measured.
        bits: how much smaller the scale in question is; below 0 for a larger one, where nothing more is lost.
    """
    total = sum(counts.values())
    if not total:
        return None
    return sum(count for exponent, count in counts.items() if exponent - bits < FLUSHED_BELOW) / total


def warn(signs: Signs, rows: tuple[ScaleRow, ...], largest: int | None) -> tuple[str, ...]:
    """Returns sentences about what a loss scale cannot help, or should not have to.

    Args:
        signs: what was seen at the initial weights.
        rows: what the scales did, the chosen one's among them.
        largest: the largest finite exponent.
    """
    return (*_of_the_loss(signs), *_of_the_scales(signs, rows, largest))


def _of_the_loss(signs: Signs) -> list[str]:
    said = []
    if not signs.loss_finite:
        said.append(
            "the loss is not finite at the initial weights in mixed_float16: the forward pass overflows, which no loss "
            "scale helps; scale the inputs, keep the layer that overflows in dtype='float32', or use mixed_bfloat16"
        )
    elif not signs.finite_at_one:
        said.append(
            "gradients are not finite even at loss scale 1, which no loss scale helps; look for a layer that overflows "
            "and give it dtype='float32', or use mixed_bfloat16"
        )
    if not signs.state_finite:
        said.append(
            "an overflow in the forward pass makes BatchNorm's running statistics not finite; autotune's loop puts "
            "them back when it skips an update, a loop of your own must do so too, or evaluation stays broken for good"
        )
    if _SUMMED[0] <= signs.growth <= _SUMMED[1]:
        said.append(
            "a sample's loss doubles when its batch doubles: the loss function multiplies by the batch's size or sums "
            "over it; return one loss per sample, or every micro-batch trains something else"
        )
    elif _DIVIDED[0] <= signs.growth <= _DIVIDED[1]:
        said.append(
            "a sample's loss halves when its batch doubles: the loss function averages over the batch before the loop "
            "does; return one loss per sample, or every micro-batch trains something else"
        )
    return said


def _of_the_scales(signs: Signs, rows: tuple[ScaleRow, ...], largest: int | None) -> list[str]:
    if not signs.finite_at_one or largest is None:
        return []
    said = []
    default = next((row for row in rows if row.role == "default"), None)
    if 2.0**largest < DEFAULT_LOSS_SCALE and default is not None and default.updates_skipped:
        said.append(
            f"gradients overflow above loss scale {2.0**largest:g}: the usual default of {DEFAULT_LOSS_SCALE:g} wastes "
            f"{default.updates_skipped} of the first {default.updates} updates; a loss that is summed (over samples, "
            "outputs, tokens or pixels) instead of averaged is the usual cause"
        )
    chosen = next(row for row in rows if row.role == "chosen")
    final = chosen.final_scale
    if final is not None and final <= chosen.scale * _COLLAPSE:
        said.append(
            f"the loss scale collapsed from {chosen.scale:g} to {final:g} within {chosen.updates} updates: gradients "
            "grow as training goes on; lower the learning rate or clip gradients"
        )
    return said
