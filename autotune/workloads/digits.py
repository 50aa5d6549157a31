"""A convolutional network on 1,797 real handwritten digits (UCI), brought to 32 x 32 pixels.

An ordinary workload: copy this file, change what you like, and run ``autotune tune yours.py --global-batch 256``.
"""

from importlib.resources import files

import keras
import numpy as np
import tensorflow as tf

import autotune


def _digits() -> tuple[np.ndarray, np.ndarray]:
    with (files("autotune.workloads") / "data" / "digits.npz").open("rb") as file:
        data = np.load(file)
        images, labels = data["images"], data["labels"]
    pixels = np.kron(images, np.ones((1, 4, 4), np.uint8))[..., np.newaxis]  # 8 x 8 -> 32 x 32
    return pixels.astype(np.float32) / 16, labels.astype(np.int32)


def model() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((32, 32, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            # float32 logits under every policy: softmax and its gradient do not survive float16.
            layers.Dense(10, dtype="float32"),
        ],
        name="digits",
    )


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.AdamW(1e-3, weight_decay=1e-4)


def loss(model: keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    images, labels = batch
    logits = model(images, training=True)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def dataset() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(_digits())


def evaluate(model: keras.Model) -> dict[str, float]:
    """Accuracy on the training digits, in slices of 32: evaluation should not be what decides the peak."""
    images, labels = _digits()
    right = 0
    for start in range(0, len(images), 32):
        logits = model(images[start : start + 32], training=False)
        right += int(np.sum(np.argmax(logits, axis=-1) == labels[start : start + 32]))
    return {"accuracy": right / len(labels)}


workload = autotune.Workload(model=model, optimizer=optimizer, loss=loss, dataset=dataset, evaluate=evaluate)
