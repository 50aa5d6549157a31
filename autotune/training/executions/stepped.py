"""``stepped``: one compiled call per micro-batch, then one that applies the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.executions.fused import window_spec, window_weight
from autotune.training.result import Sums, UpdateResult
from autotune.training.slices import Slicer
from autotune.training.windows import Window


class Stepped:
    """One call per micro-batch; the accumulators are float32 variables.

    Everything else that a window carries (sums, the state before it) goes from call to call as tensors that stay on the
    device.

    Args:
        engine: the model's update.
        settings: the loop's settings.
        batch_spec: specs of a window ``[None, ...]``.
    """

    name = "stepped"

    def __init__(self, engine: Engine, settings: TrainSettings, batch_spec: Any) -> None:
        jit = settings.jit_compile
        self._engine = engine
        self._slicer = Slicer(settings.micro_batch, static=jit)
        rows = settings.accumulation_steps * settings.micro_batch if jit else None
        spec = window_spec(batch_spec, rows)
        scalar = tf.TensorSpec([], tf.int32)
        self._accumulators = [tf.Variable(zeros, trainable=False) for zeros in engine.no_gradients()]
        self._absent: list[bool] = []
        self._unfinished = False
        self._numbers = [tf.constant(k) for k in range(settings.accumulation_steps)]
        self._no_sums = engine.no_sums()
        reference = (tf.TensorSpec([], tf.float32),) if engine.knows_weight else ()
        sums = tf.nest.map_structure(lambda _: tf.TensorSpec([], tf.float32), self._no_sums)
        before = [tf.TensorSpec(variable.shape, variable.dtype) for variable in engine.anatomy.written]
        self._begin = tf.function(self._open, input_signature=(spec, scalar), autograph=False)
        self._step = tf.function(
            self._micro,
            input_signature=(spec, scalar, scalar, reference, sums),
            jit_compile=jit or None,
            autograph=False,
        )
        self._end = tf.function(
            self._apply, input_signature=(sums, before, scalar), jit_compile=jit or None, autograph=False
        )
        self._opens = engine.knows_weight or bool(engine.anatomy.written)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of an update."""
        return (self._step, self._end)

    @property
    def last_function(self) -> Any:
        """The function that applies the update."""
        return self._end

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self._guarded(lambda: self._run_steps(window))

    def _guarded(self, run: Callable[[], UpdateResult]) -> UpdateResult:
        """Runs a window; one that an exception cut short must not leak into the next."""
        if self._unfinished:
            self._clear()
        self._unfinished = True
        result = run()
        self._unfinished = False
        return result

    def _run_steps(self, window: Window) -> UpdateResult:
        before, reference = self._begin(window.batch, window.counted) if self._opens else ([], ())
        sums = self._no_sums
        for k in range(-(-window.samples // self._slicer.size)):
            sums = self._step(window.batch, self._numbers[k], window.counted, reference, sums)
        return self._end(sums, before, window.counted)

    def _open(self, batch: Any, window: Any) -> tuple[Any, Any]:
        weight = window_weight(self._engine, self._slicer, batch, window)
        return self._engine.snapshot(), () if weight is None else (weight,)

    def _micro(self, batch: Any, k: Any, window: Any, reference: Any, sums: Sums) -> Sums:
        micro, rows, mask = self._slicer.micro(batch, k, window)
        gradients, more = self._engine.micro_gradients(micro, rows, window, reference[0] if reference else None, mask)
        self._absent = [gradient is None for gradient in gradients]
        for accumulator, gradient in zip(self._accumulators, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                values = tf.cast(gradient.values, tf.float32)
                accumulator.scatter_add(tf.IndexedSlices(values, gradient.indices, gradient.dense_shape))
            elif gradient is not None:
                accumulator.assign_add(tf.cast(gradient, tf.float32))
        return sums.plus(more)

    def _apply(self, sums: Sums, before: Any, window: Any) -> UpdateResult:
        gradients = [
            None if gone else accumulator.read_value()
            for accumulator, gone in zip(self._accumulators, self._absent, strict=True)
        ]
        result = self._engine.finish(gradients, sums, before, window)
        self._clear()
        return result

    def _clear(self) -> None:
        for accumulator in self._accumulators:
            accumulator.assign(tf.zeros_like(accumulator))
