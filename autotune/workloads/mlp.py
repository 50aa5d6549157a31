"""A three-layer perceptron on the 64 pixels of 1,797 real handwritten digits (UCI): many weights, few activations.

An ordinary workload: copy this file, change what you like, and run ``autotune tune yours.py --global-batch 256``.
"""

from importlib.resources import files

import keras
import numpy as np
import tensorflow as tf

import autotune


def model() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((64,)),
            layers.Dense(1024, activation="relu"),
            layers.Dense(1024, activation="relu"),
            layers.Dense(1024, activation="relu"),
            layers.Dense(10, dtype="float32"),
        ],
        name="mlp",
    )


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(1e-3)


def loss(model: keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    pixels, labels = batch
    logits = model(pixels, training=True)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def dataset() -> tf.data.Dataset:
    with (files("autotune.workloads") / "data" / "digits.npz").open("rb") as file:
        data = np.load(file)
        pixels = data["images"].reshape(-1, 64).astype(np.float32) / 16
        labels = data["labels"].astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((pixels, labels))


workload = autotune.Workload(model=model, optimizer=optimizer, loss=loss, dataset=dataset)
