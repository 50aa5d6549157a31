"""The loss scale is decided per update, bounded, and a skipped update leaves no trace."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.core.settings import LossScaleSettings
from autotune.training import AccumulationLoop
from tests.training.toys import WAY_IDS, WAYS, X, Y, settings, workload

# one sample of the second window overflows float16 in the forward pass
BAD = X.copy()
BAD[15] = 1e30


def normalised_model():
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(6),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


def everything(loop):
    variables = [*loop.model.variables, *loop.optimizer.variables]
    return [np.asarray(variable).copy() for variable in variables]


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
@pytest.mark.parametrize("precision", ["mixed_float16", "float32"])
def test_skipped_update_leaves_everything(precision, execution, jit):
    bad = BAD if precision == "mixed_float16" else np.where(BAD > 1e20, np.inf, BAD).astype(np.float32)
    source = workload(
        model=normalised_model,
        optimizer=lambda: keras.optimizers.AdamW(0.01, use_ema=True),
        data=(bad, Y),
    )
    loop = AccumulationLoop(source, settings(execution, jit, precision=precision, initial_loss_scale=1024.0))
    assert bool(loop.update().applied)
    before = everything(loop)
    result = loop.update()
    assert not bool(result.applied)
    for old, new in zip(before, everything(loop), strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(loop.optimizer.iterations) == 1
    assert (loop.updates_applied, loop.updates_skipped) == (1, 1)
    assert loop.loss_scale_value == (512.0 if precision == "mixed_float16" else 1.0)
    following = loop.update()
    assert bool(following.applied) and np.isfinite(float(following.loss))
    assert all(np.isfinite(value).all() for value in everything(loop))


def test_an_epoch_s_mean_leaves_skipped_updates_out():
    source = workload(data=(BAD, Y), evaluate=lambda model: {"loss": 7.0})
    loop = AccumulationLoop(source, settings(precision="mixed_float16"))
    twin = AccumulationLoop(source, settings(precision="mixed_float16"))
    numbers = loop.fit(1)[0]
    results = [twin.update() for _ in range(3)]  # of 10, 10 (skipped) and 6 samples
    assert (numbers["updates_applied"], numbers["updates_skipped"], numbers["samples"]) == (2, 1, 26)
    kept = [(float(result.loss), int(result.samples)) for result in results if bool(result.applied)]
    assert numbers["loss"] == pytest.approx(sum(loss * n for loss, n in kept) / sum(n for _, n in kept))
    assert numbers["val_loss"] == 7.0


@pytest.mark.parametrize("execution", ["fused", "stepped"])
def test_growth_is_counted_in_updates(execution):
    scale = LossScaleSettings(growth_interval=3, maximum=64.0)
    loop = AccumulationLoop(
        workload(), settings(execution, precision="mixed_float16", initial_loss_scale=16.0, loss_scale=scale)
    )
    used = [float(loop.update().loss_scale) for _ in range(11)]
    assert used == [16.0] * 3 + [32.0] * 3 + [64.0] * 5


def test_floor_is_kept_and_reported():
    scale = LossScaleSettings(minimum=0.5)
    source = workload(data=(np.full_like(X, 1e30), Y))
    loop = AccumulationLoop(source, settings(precision="mixed_float16", initial_loss_scale=4.0, loss_scale=scale))
    assert not any("floor" in sentence for sentence in loop.warnings)
    used = [float(loop.update().loss_scale) for _ in range(6)]
    assert used == [4.0, 2.0, 1.0, 0.5, 0.5, 0.5]
    assert any("floor of 0.5 and 6 updates were skipped" in sentence for sentence in loop.warnings)


def test_fixed_scale_stays():
    scale = LossScaleSettings(dynamic=False, growth_interval=1)
    loop = AccumulationLoop(
        workload(data=(BAD, Y)), settings(precision="mixed_float16", initial_loss_scale=8.0, loss_scale=scale)
    )
    results = [loop.update() for _ in range(3)]
    assert [float(result.loss_scale) for result in results] == [8.0] * 3
    assert [bool(result.applied) for result in results] == [True, False, True]


def test_policy_on_some_layers_is_scaled_too():
    def partly():
        return keras.Sequential(
            [keras.Input((8,)), keras.layers.Dense(6, dtype="mixed_float16"), keras.layers.Dense(3, dtype="float32")]
        )

    loop = AccumulationLoop(workload(model=partly), settings())
    assert float(loop.update().loss_scale) == 2.0**15
    assert loop.effective()["precision"] == "mixed_float16"
    assert any("float32 was asked for" in sentence for sentence in loop.warnings)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_other_precisions_are_not_scaled(precision):
    loop = AccumulationLoop(workload(), settings(precision=precision, initial_loss_scale=1024.0))
    assert float(loop.update().loss_scale) == 1.0


def test_finite_gradients_whose_squares_overflow_are_applied():
    source = workload(optimizer=lambda: keras.optimizers.SGD(1e-30), loss=lambda m, b: 1e25 * m(b[0])[:, 0])
    loop = AccumulationLoop(source, settings())
    result = loop.update()
    assert bool(result.applied) and bool(tf.math.is_inf(result.grad_norm))


def test_accumulators_are_float32():
    """Eight micro-batches of scaled gradients of 32768 overflow float16 when summed, not the float32 accumulators."""
    source = workload(
        model=lambda: keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, use_bias=False)]),
        optimizer=lambda: keras.optimizers.SGD(1e-6),
        loss=lambda m, b: m(b[0], training=True)[:, 0],
        data=(np.full((8, 8), 1.0, np.float32), Y[:8]),
    )
    loop = AccumulationLoop(
        source,
        settings(global_batch=8, micro_batch=1, precision="mixed_float16", initial_loss_scale=2.0**18),
    )
    result = loop.update()
    assert bool(result.applied)
    assert float(result.grad_norm) == pytest.approx(np.sqrt(8.0), rel=1e-5)
