"""Workloads whose gradients have sizes of every kind, for the calibration of the loss scale."""

import keras
import numpy as np
import tensorflow as tf

import autotune
from autotune.training.windows import untuned

BATCH = 64
_rng = np.random.default_rng(0)
X = _rng.normal(size=(512, 16)).astype("float32")
Y = (100 + 10 * _rng.normal(size=(512, 1)) + 20 * X[:, :1]).astype("float32")


def model():
    return keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )


def normalised():
    return keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )


def data(x=X, y=Y):
    return lambda: untuned(tf.data.Dataset.from_tensor_slices((x, y)))


def squared(model, batch):
    return tf.reduce_sum(tf.square(tf.cast(model(batch[0], training=True), tf.float32) - batch[1]), -1)


def no_loss(model, batch):
    raise ValueError("no loss today")


def make(**changes):
    values = {"model": model, "optimizer": lambda: keras.optimizers.Adam(1e-3), "loss": squared, "dataset": data()}
    return autotune.Workload(**{**values, **changes})


averaged = make(dataset=data(y=Y / 100))
summed = make(loss=lambda model, batch: squared(model, batch) * float(BATCH) * 4)
by_batch = make(
    loss=lambda model, batch: (
        squared(model, batch) * tf.cast(tf.shape(batch[0])[0], tf.float32),
        tf.ones_like(batch[1][:, 0]) * 3,
    )
)
tiny = make(loss=lambda model, batch: squared(model, batch) * 1e-9)
broken = make(loss=no_loss)
overflowing = make(model=normalised, dataset=data(x=np.full_like(X, 1e30)))
