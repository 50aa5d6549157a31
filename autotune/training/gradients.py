"""Gradients of every kind: dense, sparse, absent; their norm and whether they are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def densify(gradient: Any) -> Any:
    """A dense float32 gradient. Repeated ids of IndexedSlices add up, as they do in the dense gradient."""
    if isinstance(gradient, tf.IndexedSlices):
        gradient = tf.IndexedSlices(tf.cast(gradient.values, tf.float32), gradient.indices, gradient.dense_shape)
        shape = gradient.dense_shape
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, shape[0])
    return tf.cast(gradient, tf.float32)


def add_to(accumulator: Any, gradient: Any) -> Any:
    """``accumulator + gradient`` in float32; a sparse gradient touches its rows only."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(
            accumulator, gradient.indices[:, None], tf.cast(gradient.values, accumulator.dtype)
        )
    return accumulator + tf.cast(gradient, accumulator.dtype)


def squared_norm(gradients: Sequence[Any]) -> Any:
    """Sum of squares over all dense gradients, float32 scalar. ``l2_loss`` is one pass without a temporary."""
    return 2.0 * tf.add_n([tf.nn.l2_loss(gradient) for gradient in gradients])


def all_finite(gradients: Sequence[Any], squared: Any) -> Any:
    """Whether every gradient is finite, as a bool scalar.

    A finite sum of squares proves it without another pass; where the squares overflow although no gradient does
    (above 1.8e19), the gradients themselves are looked at.
    """
    return tf.cond(
        tf.math.is_finite(squared),
        lambda: tf.constant(True),
        lambda: tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])),
    )
