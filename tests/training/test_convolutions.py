"""Convolutions under XLA on the CPU: ``fused`` loops around what XLA compiles, and is exact all the same."""

import keras
import numpy as np
import pytest

from autotune.training import AccumulationLoop
from autotune.training.executions.around import Around
from tests.training.toys import (
    TOLERANCE,
    WAY_IDS,
    WAYS,
    Reference,
    W,
    X,
    Y,
    dense_model,
    settings,
    weighted_cross_entropy,
    weights,
    workload,
)


def convolutional_model():
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Reshape((8, 1)),
            keras.layers.Conv1D(4, 3, activation="tanh"),
            keras.layers.BatchNormalization(momentum=0.5, trainable=False),
            keras.layers.Flatten(),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


def source(data=(X, Y, W), **kwargs):
    return workload(
        model=convolutional_model,
        optimizer=lambda: keras.optimizers.AdamW(0.01, global_clipnorm=0.2, epsilon=0.1),
        loss=weighted_cross_entropy,
        data=data,
        **kwargs,
    )


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_every_way_gives_the_full_batch_s_update(execution, jit):
    loop = AccumulationLoop(source(), settings(execution, jit))
    reference = Reference(loop, source())
    results = [loop.update() for _ in range(4)]  # a tail of 6 among them
    losses = reference.run(4)
    assert reference.distance(loop) < TOLERANCE["float32"]
    np.testing.assert_allclose([float(result.loss) for result in results], losses, rtol=1e-5)
    told = loop.effective()
    assert (told["execution"], told["jit_compile"]) == (execution, "true" if jit else "false")


def test_only_convolutions_are_looped_around():
    def kind(model, jit=True):
        return type(AccumulationLoop(workload(model=model), settings("fused", jit))._execution)

    assert kind(convolutional_model) is Around
    assert kind(convolutional_model, jit=False) is not Around
    assert kind(dense_model) is not Around


def test_a_window_that_is_not_finite_is_skipped_and_leaves_nothing_behind():
    poisoned = X.copy()
    poisoned[4] = np.nan
    loop = AccumulationLoop(source((poisoned, Y, W)), settings("fused", True, precision="mixed_float16"))
    before = weights(loop)
    assert not bool(loop.update().applied)
    np.testing.assert_array_equal(weights(loop), before)
    assert float(loop.loss_scale_value) == 2.0**14
    assert bool(loop.update().applied)  # the next ten samples are finite: nothing of the first window is left
    assert np.isfinite(weights(loop)).all()
