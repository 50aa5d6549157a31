"""Any split of a global batch gives the full batch's update: every optimizer, precision and execution."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.training import AccumulationLoop
from tests.training.toys import TOLERANCE, WAY_IDS, WAYS, Reference, X, dense_model, settings, weights, workload


def _schedule():
    return keras.optimizers.schedules.PolynomialDecay(0.1, decay_steps=6, end_learning_rate=0.0)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    # the norm is above the limit in every update: only clipping the accumulated, unscaled gradient once passes
    "clipped": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.05),
    "clipnorm": lambda: keras.optimizers.SGD(0.1, clipnorm=0.05),
    "ema": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "schedule": lambda: keras.optimizers.SGD(_schedule()),
}


# Compiling costs more than a second each, and XLA sees the same ops: three optimizers stand for all of them there.
JITTED = ("adamw", "clipped", "ema")
CASES = [(name, execution, jit) for name in OPTIMIZERS for execution, jit in WAYS if not jit or name in JITTED]


@pytest.mark.parametrize(("name", "execution", "jit"), CASES)
def test_optimizers_in_float32(name, execution, jit):
    source = workload(optimizer=OPTIMIZERS[name])
    loop = AccumulationLoop(source, settings(execution, jit))
    reference = Reference(loop, source)
    results = [loop.update() for _ in range(5)]
    losses = reference.run(5)
    assert reference.distance(loop) < TOLERANCE["float32"]
    np.testing.assert_allclose([float(result.loss) for result in results], losses, rtol=1e-5)
    assert int(loop.optimizer.iterations) == 5
    for mine, theirs in zip(loop.optimizer.variables, reference.optimizer.variables, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_precisions(precision, execution, jit):
    # Adam divides by the gradient's size: with an epsilon below the rounding, elements near 0 would compare noise.
    source = workload(optimizer=lambda: keras.optimizers.AdamW(0.01, epsilon=0.1, global_clipnorm=0.2))
    loop = AccumulationLoop(source, settings(execution, jit, precision=precision))
    scale = 2.0**15 if precision == "mixed_float16" else 1.0
    reference = Reference(loop, source, precision, scale)
    results = [loop.update() for _ in range(5)]
    losses = reference.run(5)
    assert reference.distance(loop) < TOLERANCE[precision]
    assert {float(result.loss_scale) for result in results} == {scale}
    np.testing.assert_allclose([float(result.loss) for result in results], losses, rtol=TOLERANCE[precision])
    assert loop.effective()["precision"] == precision
    assert loop.effective()["jit_compile"] == ("true" if jit else "false")


@pytest.mark.parametrize("execution", ["fused", "stepped", "unrolled"])
@pytest.mark.parametrize("micro", [1, 3, 7, 9, 10])
def test_every_split(micro, execution):
    source = workload()
    loop = AccumulationLoop(source, settings(execution, micro_batch=micro))
    reference = Reference(loop, source)
    results = [loop.update() for _ in range(3)]
    reference.run(3)
    assert reference.distance(loop) < TOLERANCE["float32"]
    norm = float(tf.linalg.global_norm(reference.gradients))
    assert float(results[2].grad_norm) == pytest.approx(norm, rel=1e-5)


def test_against_closed_form_in_float64():
    """Least squares has its gradient in closed form: 2 X'(Xw - t) / n, here in float64."""
    target = X @ np.arange(1.0, 9.0, dtype=np.float32)[:, None]

    def squares(model, batch):
        return tf.reduce_sum(tf.square(model(batch[0], training=True) - batch[1]), axis=-1)

    source = workload(
        model=lambda: keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, use_bias=False)]),
        optimizer=lambda: keras.optimizers.SGD(0.01),
        loss=squares,
        data=(X, target),
    )
    loop = AccumulationLoop(source, settings(micro_batch=3))
    exact = np.asarray(loop.model.trainable_variables[0], np.float64)
    for start, stop in [(0, 10), (10, 20), (20, 26)] * 2:
        loop.update()
        x, t = X[start:stop].astype(np.float64), target[start:stop].astype(np.float64)
        exact = exact - 0.01 * 2 * x.T @ (x @ exact - t) / (stop - start)
    np.testing.assert_allclose(weights(loop), exact[:, 0], rtol=2e-6, atol=2e-6)


def test_process_policy_stays_as_it_was():
    before = keras.mixed_precision.dtype_policy().name
    loop = AccumulationLoop(workload(dense_model), settings(precision="mixed_bfloat16"))
    loop.update()
    assert keras.mixed_precision.dtype_policy().name == before == "float32"
