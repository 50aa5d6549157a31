"""``fused`` under XLA where convolutions run on a CPU: TensorFlow loops around what XLA compiles."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.executions.fused import window_spec
from autotune.training.executions.stepped import Stepped
from autotune.training.result import UpdateResult
from autotune.training.windows import Window


class Around(Stepped):
    """One call per update, whose loop is TensorFlow's; its body and the end of the window are XLA programs.

    XLA on the CPU runs a convolution inside its own ``while`` on one thread and without its fast kernels: 30 times
    slower than outside it (``results/benchmarks/loop.md``).

    Args:
        engine: the model's update.
        settings: the loop's settings, with ``jit_compile``.
        batch_spec: specs of a window ``[None, ...]``.
    """

    name = "fused"

    def __init__(self, engine: Engine, settings: TrainSettings, batch_spec: Any) -> None:
        super().__init__(engine, settings, batch_spec)
        rows = settings.accumulation_steps * settings.micro_batch
        signature = (window_spec(batch_spec, rows), tf.TensorSpec([], tf.int32))
        self._whole = tf.function(self._run, input_signature=signature, autograph=False)

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self._guarded(lambda: self._whole(window.batch, window.counted))

    def _run(self, batch: Any, samples: Any) -> UpdateResult:
        before, reference = self._open(batch, samples) if self._opens else ([], ())
        count = self._slicer.count(samples)
        _, sums = tf.while_loop(
            lambda k, _: k < count,
            lambda k, sums: (k + 1, self._step(batch, k, samples, reference, sums)),
            (tf.constant(0), self._no_sums),
            parallel_iterations=1,
        )
        return self._end(sums, before, samples)
