"""Run in a process of its own by test_legacy_keras.py, under TF_USE_LEGACY_KERAS=1: the same loop on tf_keras."""

import json
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.core.workload import Workload
from autotune.training import AccumulationLoop

keras = tf.keras
rng = np.random.default_rng(0)
X = rng.normal(size=(26, 8)).astype(np.float32)
Y = rng.integers(0, 3, size=26).astype(np.int32)
W = rng.uniform(0.5, 2.0, size=26).astype(np.float32)


def model():
    return keras.Sequential(
        [
            keras.layers.Input((8,)),
            keras.layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


def normalised():
    return keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(6), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    )


def loss(model, batch):
    logits = model(batch[0], training=True)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch[1], logits=logits), batch[2]


def workload(model=model, data=(X, Y, W), optimizer=lambda: keras.optimizers.AdamW(0.01, global_clipnorm=0.3)):
    return Workload(
        model=model, optimizer=optimizer, loss=loss, dataset=lambda: tf.data.Dataset.from_tensor_slices(data)
    )


def settings(**kwargs):
    return TrainSettings(**{"global_batch": 10, "micro_batch": 4, **kwargs})


def flat(model):
    return np.concatenate([np.ravel(variable.numpy()) for variable in model.trainable_variables])


def full_batches(loop, updates):
    """The reference: full batches, one eager legacy Keras step each."""
    twin = model()
    twin.set_weights(loop.model.get_weights())
    optimizer = keras.optimizers.AdamW(0.01, global_clipnorm=0.3)
    start = flat(twin)
    batches = [slice(0, 10), slice(10, 20), slice(20, 26)] * 2
    for rows in batches[:updates]:
        with tf.GradientTape() as tape:
            losses, weights = loss(twin, (X[rows], Y[rows], W[rows]))
            total = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights) + tf.add_n(twin.losses)
        gradients = tape.gradient(total, twin.trainable_variables)
        optimizer.apply_gradients(zip(gradients, twin.trainable_variables, strict=True))
    return flat(twin), np.abs(flat(twin) - start).max()


def equivalence():
    distances = {}
    for execution in ("fused", "stepped", "unrolled"):
        for jit in (False, True):
            loop = AccumulationLoop(workload(), settings(execution=execution, jit_compile=jit))
            expected, moved = full_batches(loop, 5)
            for _ in range(5):
                loop.update()
            distances[f"{execution}-{jit}"] = float(np.abs(flat(loop.model) - expected).max() / moved)
    return distances


def overflow():
    bad = X.copy()
    bad[15] = 1e30
    source = workload(model=normalised, data=(bad, Y, W))
    loop = AccumulationLoop(source, settings(precision="mixed_float16", initial_loss_scale=64.0))
    first = bool(loop.update().applied)
    before = [variable.numpy() for variable in loop.model.variables]
    second = bool(loop.update().applied)
    same = all(np.array_equal(old, new.numpy()) for old, new in zip(before, loop.model.variables, strict=True))
    return {
        "applied": [first, second, bool(loop.update().applied)],
        "untouched": same,
        "scale": loop.loss_scale_value,
        "precision": loop.effective()["precision"],
        "warned": any("BatchNormalization" in sentence for sentence in loop.warnings),
    }


def state():
    path = Path(tempfile.mkdtemp()) / "state"
    loop = AccumulationLoop(workload(), settings(precision="mixed_float16"))
    for _ in range(4):
        loop.update()
    saved = loop.save(path)
    straight = [float(loop.update().loss) for _ in range(4)]
    other = AccumulationLoop(workload(), settings(precision="mixed_float16"))
    other.restore(saved)
    return straight == [float(other.update().loss) for _ in range(4)]


def unwrapped():
    def wrapped():
        return keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))

    loop = AccumulationLoop(workload(optimizer=wrapped), settings(precision="mixed_float16"))
    return [type(loop.optimizer).__name__, bool(loop.update().applied)]


def old_optimizer():
    loop = AccumulationLoop(workload(optimizer=lambda: keras.optimizers.legacy.SGD(0.1)), settings())
    before = flat(loop.model)
    loop.update()
    return bool(np.abs(flat(loop.model) - before).max() > 0)


print(
    json.dumps(
        {
            "keras": keras.layers.Dense.__module__,
            "equivalence": equivalence(),
            "overflow": overflow(),
            "state": state(),
            "unwrapped": unwrapped(),
            "old_optimizer": old_optimizer(),
            "policy": keras.mixed_precision.global_policy().name,
        }
    )
)
