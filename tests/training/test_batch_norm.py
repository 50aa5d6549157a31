"""BatchNorm under accumulation: warned about, its pace corrected on request, exact where nothing is padded."""

import keras
import numpy as np
import pytest

from autotune.training import AccumulationLoop
from tests.training.toys import X, Y, settings, workload


def model():
    return keras.Sequential([keras.Input((8,)), keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dense(3)])


def running_mean(loop):
    return np.asarray(loop.model.layers[0].moving_mean)


@pytest.mark.parametrize(
    ("execution", "jit"), [("fused", False), ("stepped", False), ("unrolled", False), ("unrolled", True)]
)
def test_statistics_follow_the_real_micro_batches(execution, jit):
    loop = AccumulationLoop(workload(model=model), settings(execution, jit))
    loop.update()
    mean = np.zeros(8)
    for start, stop in [(0, 4), (4, 8), (8, 10)]:  # the last one has two samples, not four
        mean = 0.9 * mean + 0.1 * X[start:stop].mean(0)
    np.testing.assert_allclose(running_mean(loop), mean, rtol=1e-5, atol=1e-6)


def test_warning_names_the_layer_and_the_correction():
    loop = AccumulationLoop(workload(model=model), settings())
    (sentence,) = [s for s in loop.warnings if "momentum" in s]
    assert loop.model.layers[0].name in sentence and "momentum ** (1/3)" in sentence
    assert not AccumulationLoop(workload(model=model), settings(micro_batch=10)).warnings


def test_padding_under_xla_is_warned_about():
    assert any("padded" in s for s in AccumulationLoop(workload(model=model), settings(jit=True)).warnings)
    exact = AccumulationLoop(workload(model=model), settings(jit=True, micro_batch=5))
    assert not any("padded" in s for s in exact.warnings)


def test_corrected_momentum_keeps_the_pace_of_the_full_batch():
    data = (np.repeat(X[:1], 20, 0), Y[:20])  # equal samples: micro-batch and full-batch statistics agree
    full = AccumulationLoop(workload(model=model, data=data), settings(micro_batch=10))
    split = AccumulationLoop(workload(model=model, data=data), settings(micro_batch=2), batch_norm="corrected")
    for _ in range(4):
        full.update()
        split.update()
    np.testing.assert_allclose(running_mean(split), running_mean(full), rtol=1e-5)
    assert not any("momentum" in s for s in split.warnings)
