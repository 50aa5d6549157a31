"""``fused``: one compiled call per update, with the loop over micro-batches inside and accumulators that it carries."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.gradients import add_to
from autotune.training.result import UpdateResult
from autotune.training.slices import Slicer
from autotune.training.windows import Window


def window_weight(engine: Engine, slicer: Slicer, batch: Any, window: Any) -> Any:
    """A window's total weight before its first backward pass, float32 scalar; None where it follows from shapes."""
    if not engine.knows_weight:
        return None

    def add(k: Any, total: Any) -> tuple[Any, Any]:
        micro, _, mask = slicer.micro(batch, k, window)
        return k + 1, total + engine.total_weight(micro, mask)

    start = (tf.constant(0), tf.constant(0.0))
    return tf.while_loop(lambda k, _: k < slicer.count(window), add, start, parallel_iterations=1)[1]


class Fused:
    """One call per update.

    Accumulators are carried by the loop: nothing has to be zeroed, saved or protected between windows, and a single
    micro-batch has none.

    Args:
        engine: the model's update.
        settings: the loop's settings.
        batch_spec: specs of a window ``[None, ...]``.
        jit_compile: overrides the settings' (``unrolled`` runs its tails plain).
    """

    def __init__(
        self, engine: Engine, settings: TrainSettings, batch_spec: Any, *, jit_compile: bool | None = None
    ) -> None:
        jit = settings.jit_compile if jit_compile is None else jit_compile
        self._engine = engine
        self._slicer = Slicer(settings.micro_batch, static=jit)
        rows = settings.accumulation_steps * settings.micro_batch if jit else None
        spec = tf.nest.map_structure(lambda item: tf.TensorSpec([rows, *item.shape[1:]], item.dtype), batch_spec)
        self.function = tf.function(
            self._single if settings.accumulation_steps == 1 else self._accumulated,
            input_signature=(spec, tf.TensorSpec([], tf.int32)),
            jit_compile=jit or None,
            autograph=False,
        )

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of an update."""
        return (self.function,)

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self.function(window.batch, window.counted)

    def _single(self, batch: Any, window: Any) -> UpdateResult:
        engine = self._engine
        before = engine.snapshot()
        micro, rows, mask = self._slicer.whole(batch, window)
        reference = engine.total_weight(micro, mask) if engine.knows_weight else None
        gradients, sums = engine.micro_gradients(micro, rows, window, reference, mask)
        return engine.finish(gradients, sums, before, window)

    def _accumulated(self, batch: Any, window: Any) -> UpdateResult:
        engine, slicer = self._engine, self._slicer
        before = engine.snapshot()
        reference = window_weight(engine, slicer, batch, window)
        absent: list[bool] = []

        def add(k: Any, accumulated: Any, sums: Any) -> tuple[Any, Any, Any]:
            micro, rows, mask = slicer.micro(batch, k, window)
            gradients, more = engine.micro_gradients(micro, rows, window, reference, mask)
            absent[:] = [gradient is None for gradient in gradients]
            accumulated = [
                total if gradient is None else add_to(total, gradient)
                for total, gradient in zip(accumulated, gradients, strict=True)
            ]
            return k + 1, accumulated, sums.plus(more)

        _, accumulated, sums = tf.while_loop(
            lambda k, *_: k < slicer.count(window),
            add,
            (tf.constant(0), engine.no_gradients(), engine.no_sums()),
            parallel_iterations=1,
        )
        gradients = [None if gone else total for total, gone in zip(accumulated, absent, strict=True)]
        return engine.finish(gradients, sums, before, window)
