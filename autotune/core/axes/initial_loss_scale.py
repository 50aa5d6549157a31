"""initial_loss_scale: where the dynamic loss scale starts; float16 only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autotune.core.axes import Axis


def _parse(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"initial_loss_scale must be a number above 0, got {text!r}")
    return value


def _expand(low: str, high: str) -> tuple[float, ...]:
    # Dynamic scaling moves by factors of two, so powers of two are the values that differ.
    first, last = _parse(low), _parse(high)
    powers = range(math.ceil(math.log2(first)), math.floor(math.log2(last)) + 1)
    if not powers:
        raise ValueError(f"initial_loss_scale={low}..{high} holds no power of two")
    return tuple(2.0**p for p in powers)


def _narrow(values: tuple[Any, ...], chosen: Mapping[str, Any]) -> tuple[Any, ...]:
    return values if chosen.get("precision") == "mixed_float16" else (None,)


AXIS = Axis(
    name="initial_loss_scale",
    order=5,
    summary="where the dynamic loss scale starts (mixed_float16 only)",
    parse=_parse,
    defaults=lambda device_kind: (None,),
    narrow=_narrow,
    expand=_expand,
)
