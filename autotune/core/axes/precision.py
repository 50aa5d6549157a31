"""Precision: the Keras dtype policy."""

from __future__ import annotations

from autotune.core.axes import Axis, choice
from autotune.core.settings import PRECISIONS


def _defaults(device_kind: str) -> tuple[str, ...]:
    # 16-bit types are slower and larger on a CPU (upcasts), so there the user asks for them; on a GPU the probe's
    # advice replaces this.
    return ("float32",) if device_kind == "cpu" else ("mixed_float16", "float32")


AXIS = Axis(
    name="precision",
    order=1,
    summary="float32, mixed_float16 or mixed_bfloat16",
    parse=lambda text: choice(text, PRECISIONS, "precision"),
    defaults=_defaults,
)
