"""What an update divides by: the whole window's weight, once; regularisation counts once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.training import AccumulationLoop
from tests.training.toys import (
    TOLERANCE,
    WAY_IDS,
    WAYS,
    Reference,
    W,
    X,
    Y,
    cross_entropy,
    dense_model,
    settings,
    weighted_cross_entropy,
    workload,
)

TOKENS = 9
_rng = np.random.default_rng(3)
TEXT = _rng.integers(1, 12, size=(26, TOKENS)).astype(np.int32)
for row, length in enumerate(_rng.integers(2, TOKENS + 1, size=26)):
    TEXT[row, length:] = 0  # lengths differ: a mean of micro-batch means is far from the mean over tokens


def token_model():
    return keras.Sequential(
        [keras.Input((None,), dtype="int32"), keras.layers.Embedding(12, 6), keras.layers.Dense(12, dtype="float32")]
    )


def token_loss(model, batch):
    text = batch[0]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(text[:, 1:], model(text[:, :-1], training=True))
    return losses, tf.cast(text[:, 1:] > 0, tf.float32)


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
@pytest.mark.parametrize("kind", ["samples", "tokens"])
def test_weights(kind, execution, jit):
    if kind == "samples":
        source = workload(loss=weighted_cross_entropy, data=(X, Y, W))
    else:
        source = workload(model=token_model, loss=token_loss, data=(TEXT,), optimizer=lambda: keras.optimizers.SGD(1.0))
    loop = AccumulationLoop(source, settings(execution, jit))
    reference = Reference(loop, source)
    losses = [float(loop.update().loss) for _ in range(3)]
    np.testing.assert_allclose(losses, reference.run(3), rtol=1e-5)
    assert reference.distance(loop) < TOLERANCE["float32"]


def test_class_weights_equal_keras_fit():
    table = {0: 5.0, 1: 1.0, 2: 0.25}

    def loss(model, batch):
        return cross_entropy(model, batch), tf.gather(tf.constant([table[k] for k in range(3)]), batch[1])

    source = workload(loss=loss, data=(X[:20], Y[:20]))
    loop = AccumulationLoop(source, settings(micro_batch=3))
    model = dense_model()
    model.set_weights(loop.model.get_weights())
    model.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
        run_eagerly=True,
    )
    loop.update()
    loop.update()
    model.fit(X[:20], Y[:20], batch_size=10, shuffle=False, class_weight=table, verbose=0)
    for mine, theirs in zip(loop.model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


class Extra(keras.layers.Layer):
    """Adds a loss that depends on the batch, as a mean over it."""

    def call(self, x):
        self.add_loss(0.3 * keras.ops.mean(keras.ops.square(x)))
        return x


def regularised_model():
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, kernel_regularizer=keras.regularizers.L2(0.05)),
            Extra(),
            keras.layers.Dense(3, activity_regularizer=keras.regularizers.L2(0.02), dtype="float32"),
        ]
    )


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_regularisation_counts_once(execution, jit):
    source = workload(
        model=regularised_model,
        loss=weighted_cross_entropy,
        data=(X[:20], Y[:20], W[:20]),
        extra_loss=lambda model: 0.1 * tf.reduce_sum(tf.abs(model.trainable_variables[0].value)),
    )
    # padding would count in a mean over the batch: the micro-batch divides the window where XLA pads
    loop = AccumulationLoop(source, settings(execution, jit, micro_batch=5 if jit else 4))
    reference = Reference(loop, source)
    losses = [float(loop.update().loss) for _ in range(2)]
    np.testing.assert_allclose(losses, reference.run(2), rtol=1e-5)
    assert reference.distance(loop) < TOLERANCE["float32"]


@pytest.mark.parametrize("execution", ["fused", "stepped", "unrolled"])
def test_back_propagated_magnitude_is_a_means(execution):
    """The largest loss scale without overflow is the same for the full batch and for any split of it."""

    def largest(micro):
        source = workload(loss=lambda m, b: tuple(1e3 * t for t in weighted_cross_entropy(m, b)), data=(X, Y, W))
        kind = "fused" if micro == 10 else execution
        loop = AccumulationLoop(
            source, settings(kind, micro_batch=micro, precision="mixed_float16", initial_loss_scale=2.0**24)
        )
        start = loop.model.get_weights()
        window = loop.prepare_window(10)
        while not bool(loop.update(window).applied):
            loop.model.set_weights(start)
        return float(loop.loss_scale_value)

    assert largest(10) == largest(2) < 2.0**24


def test_weights_from_the_model_are_normalised_too():
    def loss(model, batch):
        logits = model(batch[0], training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch[1], logits)
        return losses, tf.stop_gradient(tf.nn.sigmoid(logits[:, 0]))

    source = workload(loss=loss)
    loop = AccumulationLoop(source, settings(micro_batch=3))
    reference = Reference(loop, source)
    for _ in range(3):
        loop.update()
    reference.run(3)
    assert reference.distance(loop) < TOLERANCE["float32"]
    with pytest.raises(ValueError, match="compute the weights from the batch alone"):
        AccumulationLoop(workload(model=regularised_model, loss=loss), settings())


def test_window_without_weight_changes_nothing():
    source = workload(loss=weighted_cross_entropy, data=(X, Y, np.zeros_like(W)))
    loop = AccumulationLoop(source, settings())
    before = loop.model.get_weights()
    result = loop.update()
    assert float(result.loss) == 0 and float(result.grad_norm) == 0
    for old, new in zip(before, loop.model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_auxiliary_metrics_are_averaged_like_the_loss():
    def loss(model, batch):
        losses, factors = token_loss(model, batch)
        return (
            losses,
            factors,
            {"tokens": tf.cast(batch[0][:, 1:], tf.float32), "rows": tf.cast(batch[0][:, 0], tf.float32)},
        )

    loop = AccumulationLoop(workload(model=token_model, loss=loss, data=(TEXT,)), settings(micro_batch=3))
    result = loop.update()
    targets = TEXT[:10, 1:]
    assert float(result.metrics["tokens"]) == pytest.approx(targets[targets > 0].mean(), rel=1e-6)
    assert float(result.metrics["rows"]) == pytest.approx(TEXT[:10, 0].mean(), rel=1e-6)
