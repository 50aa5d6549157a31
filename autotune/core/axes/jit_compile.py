"""jit_compile: compile with XLA, or not."""

from __future__ import annotations

from autotune.core.axes import Axis, on_off

AXIS = Axis(
    name="jit_compile",
    order=3,
    summary="compile with XLA (on) or not (off)",
    parse=lambda text: on_off(text, "jit_compile"),
    defaults=lambda device_kind: (False, True),
)
