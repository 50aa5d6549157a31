"""``unrolled``: one compiled call per update, with as many copies of the micro-batch in the graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.executions.fused import Fused
from autotune.training.gradients import add_to, densify
from autotune.training.result import UpdateResult
from autotune.training.windows import Window


class Unrolled:
    """One call per update; every micro-batch has its own static shape, the shorter last one too: nothing is padded.

    The graph holds one full window. The tail of an epoch, of any other length, runs through a plain ``fused`` loop: one
    more trace, whatever the tails.

    Args:
        engine: the model's update.
        settings: the loop's settings.
        batch_spec: specs of a window ``[None, ...]``.
    """

    def __init__(self, engine: Engine, settings: TrainSettings, batch_spec: Any) -> None:
        self._engine = engine
        self._samples = settings.replica_batch
        self._micro = settings.micro_batch
        spec = tf.nest.map_structure(
            lambda item: tf.TensorSpec([self._samples, *item.shape[1:]], item.dtype), batch_spec
        )
        self.function = tf.function(
            self._full, input_signature=(spec,), jit_compile=settings.jit_compile or None, autograph=False
        )
        self._tail = Fused(engine, settings, batch_spec, jit_compile=False)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of a full update."""
        return (self.function,)

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self.function(window.batch) if window.samples == self._samples else self._tail.update(window)

    def _full(self, batch: Any) -> UpdateResult:
        engine, window = self._engine, tf.constant(self._samples)
        before = engine.snapshot()
        starts = range(0, self._samples, self._micro)
        micros = [
            tf.nest.map_structure(lambda tensor, begin=begin: tensor[begin : begin + self._micro], batch)
            for begin in starts
        ]
        reference = tf.add_n([engine.total_weight(micro, None) for micro in micros]) if engine.knows_weight else None
        accumulated: list[Any] = []
        sums = engine.no_sums()
        for begin, micro in zip(starts, micros, strict=True):
            rows = tf.constant(min(self._micro, self._samples - begin))
            gradients, more = engine.micro_gradients(micro, rows, window, reference, None)
            sums = sums.plus(more)
            if not accumulated:
                accumulated = [gradient if gradient is None else densify(gradient) for gradient in gradients]
            else:
                accumulated = [
                    total if gradient is None else add_to(total, gradient)
                    for total, gradient in zip(accumulated, gradients, strict=True)
                ]
        return engine.finish(accumulated, sums, before, window)
