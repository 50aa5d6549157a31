"""recompute: run the workload's named blocks again in the backward pass instead of keeping their activations."""

from __future__ import annotations

from autotune.core.axes import Axis, on_off

AXIS = Axis(
    name="recompute",
    order=4,
    summary="recompute the workload's named blocks in the backward pass (on) or keep their activations (off)",
    parse=lambda text: on_off(text, "recompute"),
    defaults=lambda device_kind: (False, True),
)
