"""Mistake 4: gradients are summed in a Python list that tf.function reassigns; each call starts from zeros again."""

import keras
import tensorflow as tf

STEPS = 4
weight = tf.Variable(0.0)
optimizer = keras.optimizers.SGD(1.0)
optimizer.build([weight])
step = tf.Variable(0)
accumulated = [tf.zeros_like(weight)]


@tf.function
def train_step(x: tf.Tensor) -> None:
    """The recipe as it is often written."""
    global accumulated
    with tf.GradientTape() as tape:
        loss = weight * x
    gradients = tape.gradient(loss, [weight])
    # Tracing reads the list once: its zeros become a constant of the graph. The sum lives only inside of this call.
    accumulated = [total + gradient for total, gradient in zip(accumulated, gradients, strict=True)]
    step.assign_add(1)
    if step % STEPS == 0:
        optimizer.apply([total / STEPS for total in accumulated], [weight])


for value in (1.0, 2.0, 3.0, 10.0):
    train_step(tf.constant(value))

print(f"gradient applied: {-float(weight)}; the mean of the four is {(1 + 2 + 3 + 10) / 4}")
assert -float(weight) == 10.0 / STEPS  # the last micro-batch alone, divided by four; and nothing was raised

try:
    float(accumulated[0])
except TypeError as error:
    print(f"what the list holds now is a tensor of a graph that is gone: {str(error).splitlines()[0][:90]}")
