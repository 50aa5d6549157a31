"""Cutting a window into micro-batches inside the graph, without copying more than a micro-batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Slicer:
    """Cuts micro-batch ``k`` out of a window.

    Without XLA the last micro-batch is as short as what is left: exact for everything, BatchNorm included, and one
    trace serves every length. XLA compiles one program per shape, so there every micro-batch has ``micro`` rows: the
    window is padded with copies of its own samples, which a mask takes out of every sum.

    Args:
        micro: samples of a micro-batch.
        static: micro-batches of one static shape (for XLA).
    """

    def __init__(self, micro: int, *, static: bool) -> None:
        self.size = micro
        self.static = static

    def count(self, window: Any) -> Any:
        """Micro-batches of a window of ``window`` real samples, int32 scalar."""
        return (window + (self.size - 1)) // self.size

    def micro(self, batch: Any, k: Any, window: Any) -> tuple[Any, Any, Any]:
        """Micro-batch ``k``.

        Args:
            batch: structure of ``[rows, ...]``.
            k: int32 scalar.
            window: real samples, int32 scalar.

        Returns:
            (structure of ``[size or fewer, ...]``, its real samples as int32 scalar, float32 mask ``[size]`` or None).
        """
        begin = k * self.size
        rows = tf.minimum(window - begin, self.size)
        if not self.static:
            return tf.nest.map_structure(lambda tensor: tensor[begin : begin + rows], batch), rows, None

        def cut(tensor: Any) -> Any:
            rest = tensor.shape.rank - 1
            part = tf.slice(
                tensor, tf.stack([begin] + [0] * rest), tf.stack([self.size, *tf.unstack(tf.shape(tensor)[1:])])
            )
            part.set_shape([self.size, *tensor.shape[1:]])
            return part

        return tf.nest.map_structure(cut, batch), rows, self.mask(rows)

    def whole(self, batch: Any, window: Any) -> tuple[Any, Any, Any]:
        """The whole window as its only micro-batch; same returns as ``micro``."""
        return batch, window, self.mask(window) if self.static else None

    def mask(self, rows: Any) -> Any:
        """1 for the first ``rows`` rows of a micro-batch, 0 for the padding; float32 ``[size]``."""
        return tf.cast(tf.range(self.size) < rows, tf.float32)
