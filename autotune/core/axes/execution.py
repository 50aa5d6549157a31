"""Execution: how the accumulation steps of one update are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.core.axes import Axis, choice
from autotune.core.settings import EXECUTIONS


def _narrow(values: tuple[Any, ...], chosen: Mapping[str, Any]) -> tuple[Any, ...]:
    # With one step there is nothing to loop over, unroll or call again: all executions are the same program.
    if chosen["accumulation_steps"] == 1:
        return ("fused",) if "fused" in values else values[:1]
    return values


AXIS = Axis(
    name="execution",
    order=2,
    summary="stepped (one call per micro-batch), fused (one call, a loop inside) or unrolled (one call, copies inside)",
    parse=lambda text: choice(text, EXECUTIONS, "execution"),
    defaults=lambda device_kind: ("fused", "stepped", "unrolled"),
    narrow=_narrow,
)
