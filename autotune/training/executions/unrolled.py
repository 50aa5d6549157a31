"""``unrolled``: one compiled call per update, with as many copies of the micro-batch in the graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.training.engine import Engine
from autotune.training.executions.fused import Fused, window_spec
from autotune.training.gradients import add_to, densify
from autotune.training.result import Sums, UpdateResult
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

    name = "unrolled"

    def __init__(self, engine: Engine, settings: TrainSettings, batch_spec: Any) -> None:
        self._engine = engine
        self._samples = settings.replica_batch
        self._micro = settings.micro_batch
        self.function = tf.function(
            self._full,
            input_signature=(window_spec(batch_spec, self._samples),),
            jit_compile=settings.jit_compile or None,
            autograph=False,
        )
        self._tail = Fused(engine, settings, batch_spec, jit_compile=False)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of a full update."""
        return (self.function,)

    @property
    def last_function(self) -> Any:
        """The function that applies the update."""
        return self.function

    def update(self, window: Window) -> UpdateResult:
        """One update over a window."""
        return self.function(window.batch) if window.samples == self._samples else self._tail.update(window)

    def _full(self, batch: Any) -> UpdateResult:
        engine, samples = self._engine, tf.constant(self._samples)
        before = engine.snapshot()
        reference = None
        if engine.knows_weight:
            reference = tf.add_n([engine.total_weight(micro, None) for micro, _ in self._micros(batch)])
        gradients, sums = self.accumulate(batch, samples, samples, reference)
        return engine.finish(gradients, sums, before, samples)

    def _micros(self, batch: Any) -> list[tuple[Any, int]]:
        def cut(begin: int, end: int) -> Any:
            return tf.nest.map_structure(lambda tensor: tensor[begin:end], batch)

        ends = [min(begin + self._micro, self._samples) for begin in range(0, self._samples, self._micro)]
        return [(cut(end - rows, end), rows) for end, rows in zip(ends, self._rows(), strict=True)]

    def _rows(self) -> list[int]:
        full, rest = divmod(self._samples, self._micro)
        return [self._micro] * full + ([rest] if rest else [])

    def accumulate(self, batch: Any, samples: Any, window: Any, reference: Any) -> tuple[list[Any], Sums]:
        """Gradients and sums of a full window; see :meth:`autotune.training.executions.fused.Fused.accumulate`."""
        del samples  # a full window's are known
        accumulated: list[Any] = []
        sums = self._engine.no_sums()
        for micro, rows in self._micros(batch):
            gradients, more = self._engine.micro_gradients(micro, tf.constant(rows), window, reference, None)
            sums = sums.plus(more)
            if not accumulated:
                accumulated = [gradient if gradient is None else densify(gradient) for gradient in gradients]
            else:
                accumulated = [
                    total if gradient is None else add_to(total, gradient)
                    for total, gradient in zip(accumulated, gradients, strict=True)
                ]
        return accumulated, sums
