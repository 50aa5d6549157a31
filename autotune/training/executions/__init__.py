"""How an update is compiled: one file for each way."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.executions.around import Around
from autotune.training.executions.fused import Fused
from autotune.training.executions.stepped import Stepped
from autotune.training.executions.unrolled import Unrolled

_KINDS = {"fused": Fused, "stepped": Stepped, "unrolled": Unrolled}


def build(engine: Engine, settings: TrainSettings, batch_spec: Any) -> Fused | Stepped | Unrolled:
    """The execution that the settings ask for; a single micro-batch needs no accumulation, so there all are one."""
    if settings.accumulation_steps == 1:
        return Fused(engine, settings, batch_spec)
    on_cpu = not tf.config.list_logical_devices("GPU")
    if settings.execution == "fused" and settings.jit_compile and on_cpu and engine.anatomy.convolves:
        return Around(engine, settings, batch_spec)
    return _KINDS[settings.execution](engine, settings, batch_spec)


def padded_rows(settings: TrainSettings) -> int | None:
    """Rows that windows must be padded to for the execution, or None where they stay as long as they are."""
    if not settings.jit_compile or (settings.execution == "unrolled" and settings.accumulation_steps > 1):
        return None
    return settings.accumulation_steps * settings.micro_batch
