"""Small workloads, and the independent reference: the full batch in one eager Keras step."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.core.workload import Workload
from autotune.training import AccumulationLoop
from autotune.training.windows import untuned

WAYS = [(execution, jit) for execution in ("fused", "stepped", "unrolled") for jit in (False, True)]
WAY_IDS = [f"{execution}{'-jit' if jit else ''}" for execution, jit in WAYS]

# How far weights may differ from the reference's, as a share of how far training moved them. Both sum the same products
# in another order, so it is a few roundings of the compute type: 2**-24 for float32, 2**-11 for float16, 2**-8 for
# bfloat16.
TOLERANCE = {"float32": 1e-5, "mixed_float16": 4e-3, "mixed_bfloat16": 3e-2}

SAMPLES, FEATURES, CLASSES = 26, 8, 3
_rng = np.random.default_rng(7)
X = _rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
Y = _rng.integers(0, CLASSES, size=SAMPLES).astype(np.int32)
W = _rng.uniform(0.2, 2.0, size=SAMPLES).astype(np.float32)


def dense_model(**kwargs):
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(16, activation="tanh", **kwargs),
            keras.layers.Dense(CLASSES, dtype="float32"),
        ]
    )


def cross_entropy(model, batch):
    x, y = batch[:2]
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True))


def weighted_cross_entropy(model, batch):
    return cross_entropy(model, batch), batch[2]


def sgd():
    return keras.optimizers.SGD(0.1)


def workload(model=dense_model, optimizer=sgd, loss=cross_entropy, data=(X, Y), **kwargs):
    return Workload(
        model=model,
        optimizer=optimizer,
        loss=loss,
        dataset=lambda: untuned(tf.data.Dataset.from_tensor_slices(data)),
        **kwargs,
    )


def settings(execution="fused", jit=False, **kwargs):
    values = {"global_batch": 10, "micro_batch": 4, "execution": execution, "jit_compile": jit, **kwargs}
    return TrainSettings(**values)


def flat(variables):
    return np.concatenate([np.ravel(np.asarray(variable)) for variable in variables] or [np.zeros(0)])


def weights(loop_or_model):
    model = getattr(loop_or_model, "model", loop_or_model)
    return flat(model.trainable_variables)


class Reference:
    """The same workload trained on full batches, one eager step each, with nothing of autotune's.

    Starts from the weights of a loop that has not been trained yet.
    """

    def __init__(self, loop: AccumulationLoop, source: Workload, precision="float32", scale=1.0, traced=False) -> None:
        before = keras.mixed_precision.dtype_policy()
        keras.mixed_precision.set_dtype_policy(precision)
        try:
            self.model = source.model()
            self.source = source
            batch = next(iter(self.windows()))
            source.loss(self.model, batch)  # builds a subclassed model
        finally:
            keras.mixed_precision.set_dtype_policy(before)
        self.model.set_weights(loop.model.get_weights())
        self.optimizer = source.optimizer()
        self.optimizer.build(self.model.trainable_variables)
        self.scale = scale
        self.start = weights(self.model)
        if traced:  # tf.cond gives zeros for the branch not taken in a graph, and nothing at all outside of one
            self.differentiate = tf.function(self.differentiate, reduce_retracing=True)

    def windows(self, size: int = 10):
        return self.source.dataset().batch(size)

    def differentiate(self, batch):
        with tf.GradientTape() as tape:
            output = self.source.loss(self.model, batch)
            losses, factors = output[:2] if isinstance(output, tuple) else (output, None)
            losses = tf.cast(losses, tf.float32)
            factors = tf.ones_like(losses) if factors is None else tf.cast(factors, tf.float32)
            total = tf.reduce_sum(losses * factors) / tf.reduce_sum(factors)
            if self.model.losses:
                total += tf.add_n([tf.cast(term, tf.float32) for term in self.model.losses])
            if self.source.extra_loss is not None:
                total += self.source.extra_loss(self.model)
            scaled = total * self.scale
        gradients = tape.gradient(scaled, [variable.value for variable in self.model.trainable_variables])
        return total, [None if g is None else tf.convert_to_tensor(g) / self.scale for g in gradients]

    def step(self, batch) -> float:
        total, gradients = self.differentiate(batch)
        self.gradients = gradients
        pairs = [(g, v) for g, v in zip(gradients, self.model.trainable_variables, strict=True) if g is not None]
        self.optimizer.apply(*zip(*pairs, strict=True))
        return float(total)

    def run(self, updates: int) -> list[float]:
        losses = []
        while len(losses) < updates:
            for batch in self.windows():
                losses.append(self.step(batch))
                if len(losses) == updates:
                    break
        return losses

    def distance(self, loop: AccumulationLoop) -> float:
        """How far the loop's weights are from these, as a share of how far training moved them."""
        mine = weights(self.model)
        return float(np.abs(weights(loop) - mine).max() / np.abs(mine - self.start).max())
