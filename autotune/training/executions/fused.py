"""``fused``: one compiled call per update, with the loop over micro-batches inside and accumulators that it carries."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.gradients import add_to, densify
from autotune.training.result import Sums, UpdateResult
from autotune.training.slices import Slicer
from autotune.training.windows import Window


def window_spec(batch_spec: Any, rows: int | None) -> Any:
    """Specs of a window of ``rows`` rows."""
    return tf.nest.map_structure(lambda item: tf.TensorSpec([rows, *item.shape[1:]], item.dtype), batch_spec)


def window_weight(engine: Engine, slicer: Slicer, batch: Any, samples: Any) -> Any:
    """A window's total weight before its first backward pass, float32 scalar; None where it follows from shapes."""
    if not engine.knows_weight:
        return None

    def add(k: Any, total: Any) -> tuple[Any, Any]:
        micro, _, mask = slicer.micro(batch, k, samples)
        return k + 1, total + engine.total_weight(micro, mask)

    start = (tf.constant(0), tf.constant(0.0))
    return tf.while_loop(lambda k, _: k < slicer.count(samples), add, start, parallel_iterations=1)[1]


class Fused:
    """One call per update.

    Accumulators are carried by the loop: nothing has to be saved or protected between windows, and a single micro-batch
    has none. Under XLA the first micro-batch stands before the loop, and its gradients are what the others are added
    to: a few percent faster than zeroing. Without XLA it gained nothing, and the peak came to hang on the order of ops.

    Args:
        engine: the model's update.
        settings: the loop's settings.
        batch_spec: specs of a window ``[None, ...]``.
        jit_compile: overrides the settings' (``unrolled`` runs its tails plain).
        masked: rows may be padding although nothing is compiled by XLA.
    """

    name = "fused"

    def __init__(
        self,
        engine: Engine,
        settings: TrainSettings,
        batch_spec: Any,
        *,
        jit_compile: bool | None = None,
        masked: bool = False,
    ) -> None:
        jit = settings.jit_compile if jit_compile is None else jit_compile
        self._engine = engine
        self._peels = jit
        self._single = settings.accumulation_steps == 1
        self.slicer = Slicer(settings.micro_batch, static=jit, masked=masked)
        rows = settings.accumulation_steps * settings.micro_batch if jit else None
        self.function = tf.function(
            self._update,
            input_signature=(window_spec(batch_spec, rows), tf.TensorSpec([], tf.int32)),
            jit_compile=jit or None,
            autograph=False,
        )

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of an update."""
        return (self.function,)

    @property
    def last_function(self) -> Any:
        """The function that applies the update."""
        return self.function

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self.function(window.batch, window.counted)

    def _update(self, batch: Any, samples: Any) -> UpdateResult:
        before = self._engine.snapshot()
        reference = window_weight(self._engine, self.slicer, batch, samples)
        gradients, sums = self.accumulate(batch, samples, samples, reference)
        return self._engine.finish(gradients, sums, before, samples)

    def accumulate(self, batch: Any, samples: Any, window: Any, reference: Any) -> tuple[list[Any], Sums]:
        """Gradients and sums of a window, or of one replica's share of it.

        Args:
            batch: structure of ``[rows, ...]``.
            samples: how many of the rows are real, int32 scalar.
            window: real samples of the window over all replicas, int32 scalar.
            reference: the window's total weight where known beforehand, else None.
        """
        if self._single:
            micro, rows, mask = self.slicer.whole(batch, samples)
            return self._engine.micro_gradients(micro, rows, window, reference, mask)
        absent: list[bool] = []

        def add(k: Any, accumulated: Any, sums: Any) -> tuple[Any, Any, Any]:
            gradients, more = self._micro(batch, k, samples, window, reference)
            absent[:] = [gradient is None for gradient in gradients]
            totals = [
                total if gradient is None else add_to(total, gradient)
                for total, gradient in zip(accumulated, gradients, strict=True)
            ]
            return k + 1, totals, sums.plus(more)

        start = (tf.constant(0), self._engine.no_gradients(), self._engine.no_sums())
        if self._peels:
            start = self._first(batch, samples, window, reference)
        count = self.slicer.count(tf.maximum(samples, 1) if self.slicer.masked else samples)
        _, accumulated, sums = tf.while_loop(lambda k, *_: k < count, add, start, parallel_iterations=1)
        return [None if gone else total for total, gone in zip(accumulated, absent, strict=True)], sums

    def _first(self, batch: Any, samples: Any, window: Any, reference: Any) -> tuple[Any, Any, Any]:
        """What the loop carries after the first micro-batch."""
        gradients, sums = self._micro(batch, tf.constant(0), samples, window, reference)
        zeros = self._engine.no_gradients()
        start = [z if g is None else densify(g) for z, g in zip(zeros, gradients, strict=True)]
        return tf.constant(1), start, sums

    def _micro(self, batch: Any, k: Any, samples: Any, window: Any, reference: Any) -> tuple[list[Any], Sums]:
        """Gradients and sums of micro-batch ``k``."""
        micro, rows, mask = self.slicer.micro(batch, k, samples)
        return self._engine.micro_gradients(micro, rows, window, reference, mask)
