"""Mistake 3: a Python counter inside tf.function decides when to apply; it is read once, while tracing."""

import keras
import tensorflow as tf

STEPS = 4


class Recipe:
    """Accumulates over STEPS micro-batches, or means to."""

    def __init__(self, counter: object) -> None:
        self.counter = counter
        self.weight, self.accumulator = tf.Variable(0.0), tf.Variable(0.0)
        self.optimizer = keras.optimizers.SGD(1.0)
        self.optimizer.build([self.weight])

    @tf.function
    def micro(self, x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = self.weight * x
        self.accumulator.assign_add(tape.gradient(loss, self.weight))
        if isinstance(self.counter, int):
            self.counter += 1  # happens while tracing, never again
        else:
            self.counter.assign_add(1)
        if self.counter % STEPS == 0:
            self.optimizer.apply([self.accumulator / STEPS], [self.weight])
            self.accumulator.assign(0.0)


def applied(counter: object) -> int:
    """Updates that twelve micro-batches led to; three are right."""
    recipe = Recipe(counter)
    for _ in range(3 * STEPS):
        recipe.micro(tf.constant(1.0))
    return int(recipe.optimizer.iterations.numpy())


wrong, right = applied(0), applied(tf.Variable(0))
print(f"updates from 12 micro-batches, Python counter: {wrong}; tf.Variable: {right}")
assert right == 3
assert wrong == 0  # 1 % 4 is not 0, and the counter stays 1: nothing is ever applied
