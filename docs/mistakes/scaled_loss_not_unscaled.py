"""Mistake 2: the loss is scaled for float16, but the gradients are not divided by the scale before they are used."""

import keras
import tensorflow as tf

SCALE = 1024.0


def step(unscale: bool, optimizer: keras.optimizers.Optimizer) -> float:
    """One step on a weight whose true gradient is 0.5; returns how far it moved."""
    weight = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = 0.5 * weight * SCALE
    gradient = tape.gradient(loss, weight)
    optimizer.apply([gradient / SCALE if unscale else gradient], [weight])
    return 1.0 - float(weight)


sgd = [step(unscale, keras.optimizers.SGD(0.01)) for unscale in (False, True)]
print(f"SGD moves the weight by {sgd[0]:g} instead of {sgd[1]:g}")
assert abs(sgd[0] / sgd[1] - SCALE) < 0.01  # the learning rate is 1024 times what was asked for

clipped = [step(unscale, keras.optimizers.SGD(0.01, global_clipnorm=1.0)) for unscale in (False, True)]
print(f"with clipping by 1.0: {clipped[0]:g} instead of {clipped[1]:g}")
assert abs(clipped[0] / clipped[1] - 2.0) < 1e-3  # every gradient now looks too long, so every one is cut to 1.0

adam = [step(unscale, keras.optimizers.Adam(0.01)) for unscale in (False, True)]
print(f"Adam hides it: {adam[0]:g} and {adam[1]:g}, until clipping, epsilon or a change of the scale shows it")
assert abs(adam[0] - adam[1]) < 1e-6
