"""Mistake 1: the accumulators are not set back to zero after an update, so every update repeats all earlier ones."""

import keras
import tensorflow as tf


def updates(reset: bool) -> list[float]:
    """Two windows of two micro-batches each; the true mean gradient of every window is 2."""
    weight, accumulator = tf.Variable(0.0), tf.Variable(0.0)
    optimizer = keras.optimizers.SGD(1.0)
    moves = []
    for window in ([1.0, 3.0], [1.0, 3.0]):
        for x in window:
            with tf.GradientTape() as tape:
                loss = weight * x
            accumulator.assign_add(tape.gradient(loss, weight))
        before = float(weight)
        optimizer.apply([accumulator / 2], [weight])
        if reset:
            accumulator.assign(0.0)
        moves.append(before - float(weight))
    return moves


wrong, right = updates(reset=False), updates(reset=True)
print(f"gradient applied, not reset: {wrong}; reset: {right}")
assert right == [2.0, 2.0]
assert wrong == [2.0, 4.0]  # the second update holds the first window again
