"""Cutting a window into micro-batches inside the graph, without copying more than a micro-batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def rows_of(batch: Any) -> Any:
    """Rows of a batch, int32 scalar."""
    return tf.shape(tf.nest.flatten(batch)[0])[0]


class Slicer:
    """Cuts micro-batch ``k`` out of a window.

    Without XLA the last micro-batch is as short as what is left: exact for everything, BatchNorm included, and one
    trace serves every length. XLA compiles one program per shape, so there every micro-batch has ``micro`` rows: the
    window is padded with copies of its own samples, which a mask takes out of every sum.

    Args:
        micro: samples of a micro-batch.
        static: micro-batches of one static shape (for XLA).
        masked: rows may be padding although shapes are not static (a replica without samples of its own).
    """

    def __init__(self, micro: int, *, static: bool, masked: bool = False) -> None:
        self.size = micro
        self.static = static
        self.masked = static or masked

    def count(self, rows: Any) -> Any:
        """Micro-batches of ``rows`` rows, int32 scalar."""
        return (rows + (self.size - 1)) // self.size

    def micro(self, batch: Any, k: Any, samples: Any) -> tuple[Any, Any, Any]:
        """Micro-batch ``k``.

        Args:
            batch: structure of ``[rows, ...]``.
            k: int32 scalar.
            samples: how many of the rows are real, int32 scalar.

        Returns:
            (structure of ``[size or fewer, ...]``, its real samples as int32 scalar, float32 mask or None).
        """
        begin = k * self.size
        real = (
            tf.clip_by_value(samples - begin, 0, self.size) if self.masked else tf.minimum(samples - begin, self.size)
        )
        if self.static:
            return (
                tf.nest.map_structure(lambda tensor: self._cut(tensor, begin), batch),
                real,
                self._mask(self.size, real),
            )
        rows = tf.minimum(rows_of(batch) - begin, self.size) if self.masked else real
        part = tf.nest.map_structure(lambda tensor: tensor[begin : begin + rows], batch)
        return part, real, self._mask(rows, real) if self.masked else None

    def whole(self, batch: Any, samples: Any) -> tuple[Any, Any, Any]:
        """The whole window as its only micro-batch; same arguments and returns as ``micro``."""
        return batch, samples, self._mask(rows_of(batch), samples) if self.masked else None

    def _cut(self, tensor: Any, begin: Any) -> Any:
        starts = tf.stack([begin, *[0] * (tensor.shape.rank - 1)])
        part = tf.slice(tensor, starts, tf.stack([self.size, *tf.unstack(tf.shape(tensor)[1:])]))
        part.set_shape([self.size, *tensor.shape[1:]])
        return part

    def _mask(self, rows: Any, real: Any) -> Any:
        return tf.cast(tf.range(rows) < real, tf.float32)
