"""Normalisation: what a loss function returned becomes sums over samples or tokens, never a mean of means."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class LossOutput(NamedTuple):
    """What a loss function returned, told apart.

    Attributes:
        losses: per-sample ``[n, ...]`` or per-token losses, any float dtype.
        weights: the same shape, or None.
        metrics: name to per-sample or per-token values.
    """

    losses: Any
    weights: Any
    metrics: dict[str, Any]


def read_output(output: Any) -> LossOutput:
    """Tells ``losses``, ``(losses, weights)`` and ``(losses, weights, metrics)`` apart.

    Raises:
        ValueError: another structure, a reduced loss, or weights of another shape; the message says what to return.
    """
    metrics: dict[str, Any] = {}
    weights = None
    if isinstance(output, (tuple, list)):
        if not 2 <= len(output) <= 3:
            raise ValueError(
                f"the loss function returned {len(output)} values; return losses, (losses, weights) or "
                "(losses, weights, metrics)"
            )
        if len(output) == 3:
            metrics = dict(output[2] or {})
        losses, weights = output[0], output[1]
        if isinstance(weights, dict):
            raise ValueError(
                "the loss function returned a mapping as its second value; return (losses, None, metrics) where there "
                "are no weights"
            )
    else:
        losses = output
    losses = tf.convert_to_tensor(losses)
    if losses.shape.rank == 0:
        raise ValueError(
            "the loss function returned a scalar, which cannot be weighted by what each micro-batch holds; return one "
            "loss per sample or per token (a Keras loss with reduction='none', or tf.keras.losses.<function>)"
        )
    if weights is not None:
        weights = tf.convert_to_tensor(weights)
        if weights.shape.rank is not None and weights.shape.rank != losses.shape.rank:
            raise ValueError(
                f"the loss function returned weights of shape {weights.shape} for losses of shape {losses.shape}; "
                "return weights of the losses' own shape"
            )
    return LossOutput(losses, weights, {name: tf.convert_to_tensor(value) for name, value in metrics.items()})


def spread(mask: Any, like: Any) -> Any:
    """A per-sample mask ``[n]`` shaped to multiply values ``[n, ...]``."""
    return tf.reshape(mask, tf.concat([tf.shape(mask), tf.ones([tf.rank(like) - 1], tf.int32)], 0))


def weighted(values: Any, weights: Any, mask: Any) -> tuple[Any, Any]:
    """Sums values times weights in float32.

    Args:
        values: ``[n, ...]``.
        weights: the same shape, or None for ones.
        mask: float32 ``[n]``, 0 for padding; None where there is none.

    Returns:
        (sum of values times weights, sum of weights), float32 scalars.
    """
    values = tf.cast(values, tf.float32)
    if weights is None and mask is None:
        return tf.reduce_sum(values), tf.cast(tf.size(values), tf.float32)
    factor = tf.ones_like(values) if weights is None else tf.cast(tf.stop_gradient(weights), tf.float32)
    if mask is not None:
        factor *= spread(mask, values)
    return tf.reduce_sum(values * factor), tf.reduce_sum(factor)


def metric_sums(output: LossOutput, mask: Any, share: Any) -> dict[str, Any]:
    """Sums of auxiliary values that give their weighted mean once divided by the window's total.

    A metric of the losses' rank is weighted as the losses are; another is a mean over samples, and counts by this
    micro-batch's ``share`` of the window's samples.

    Returns:
        name to (numerator, denominator), float32 scalars.
    """
    sums = {}
    for name, value in output.metrics.items():
        value = tf.stop_gradient(value)
        if value.shape.rank == 0:
            sums[name] = (tf.cast(value, tf.float32) * share, share)
        else:
            same = value.shape.rank == output.losses.shape.rank
            sums[name] = weighted(value, output.weights if same else None, mask)
    return sums
