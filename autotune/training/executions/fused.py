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

    The first micro-batch stands before the loop and its gradients are where the others' are added: nothing has to be
    zeroed, saved or protected between windows, and a single micro-batch has no accumulators.

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
        first, sums = self._micro(batch, tf.constant(0), samples, window, reference)
        present = [index for index, gradient in enumerate(first) if gradient is not None]

        def add(k: Any, accumulated: Any, sums: Any) -> tuple[Any, Any, Any]:
            gradients, more = self._micro(batch, k, samples, window, reference)
            totals = [add_to(total, gradients[i]) for total, i in zip(accumulated, present, strict=True)]
            return k + 1, totals, sums.plus(more)

        count = self.slicer.count(samples)
        start = (tf.constant(1), [densify(first[index]) for index in present], sums)
        _, accumulated, sums = tf.while_loop(lambda k, *_: k < count, add, start, parallel_iterations=1)
        gradients: list[Any] = [None] * len(first)
        for index, total in zip(present, accumulated, strict=True):
            gradients[index] = total
        return gradients, sums

    def _micro(self, batch: Any, k: Any, samples: Any, window: Any, reference: Any) -> tuple[list[Any], Sums]:
        """Gradients and sums of micro-batch ``k``."""
        micro, rows, mask = self.slicer.micro(batch, k, samples)
        return self._engine.micro_gradients(micro, rows, window, reference, mask)
