"""A loop of one's own in TensorFlow."""

import keras
import tensorflow as tf

axes = ("precision",)


class Loop:
    def __init__(self, settings):
        keras.config.set_dtype_policy(settings.precision)
        keras.utils.set_random_seed(settings.seed)
        self.model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(1e-3)
        self.steps = settings.accumulation_steps
        self.batch = settings.global_batch
        self.micro = settings.micro_batch
        self.x = tf.random.normal((self.batch, 64))
        self.step = tf.function(self._step)

    def _step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.cast(self.model(x), tf.float32) - x[:, :1])) / self.batch
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def update(self):
        total, gradients = 0.0, None
        for start in range(0, self.batch, self.micro):
            loss, new = self.step(self.x[start : start + self.micro])
            total += loss
            gradients = new if gradients is None else [a + b for a, b in zip(gradients, new, strict=True)]
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return {"loss": total, "applied": True, "samples": self.batch}


def make_loop(settings):
    return Loop(settings)
