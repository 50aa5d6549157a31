"""Mistake 5: the last layer (softmax, or the loss itself) computes in float16, where small probabilities vanish."""

import keras
import numpy as np
import tensorflow as tf

# A sample whose right class has a logit 20 below the other: its probability is 2e-9, its loss 20.
LOGITS = np.array([[20.0, 0.0]], np.float32)
LABEL = np.array([1])


def loss_and_gradient(dtype: str) -> tuple[float, float]:
    """Cross entropy after a softmax layer of this dtype, and its gradient for the right class's logit."""
    softmax = keras.layers.Softmax(dtype=dtype)
    logits = tf.Variable(LOGITS)
    with tf.GradientTape() as tape:
        probabilities = softmax(tf.cast(logits, dtype))
        loss = keras.losses.sparse_categorical_crossentropy(LABEL, tf.cast(probabilities, tf.float32))
    return float(loss[0]), float(tape.gradient(loss, logits)[0, 1])


half, single = loss_and_gradient("float16"), loss_and_gradient("float32")
with tf.GradientTape() as tape:
    logits = tf.Variable(LOGITS)
    exact = tf.nn.sparse_softmax_cross_entropy_with_logits(LABEL, logits)
gradient = float(tape.gradient(exact, logits)[0, 1])

print(
    f"float16 softmax: loss {half[0]:.2f}, gradient {half[1]:g}; "
    f"float32 logits: loss {float(exact[0]):.2f}, gradient {gradient:g}"
)
assert half[1] == 0.0  # the probability is 0 in float16: the sample that is most wrong teaches nothing
assert abs(float(exact[0]) - 20.0) < 1e-3 and abs(gradient + 1.0) < 1e-3

large = float(tf.cast(70000.0, tf.float16))
print(f"a float16 loss of 70000 is {large}")
assert np.isinf(large)
