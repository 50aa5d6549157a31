"""Recompute gives the same update for less memory, keeps dropout masks, and refuses what it would spoil."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from autotune.errors import UsageError
from autotune.training import AccumulationLoop
from tests.training.toys import WAY_IDS, WAYS, settings, workload


class Block(keras.layers.Layer):
    def __init__(self, rate=0.0, norm=False, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(8, activation="tanh")
        self.dropout = keras.layers.Dropout(rate)
        self.norm = keras.layers.BatchNormalization() if norm else None

    def build(self, shape):
        self.inner.build(shape)
        if self.norm:
            self.norm.build(shape)

    def call(self, x, scale=None, training=False):
        y = self.dropout(self.inner(x), training=training)
        y = self.norm(y, training=training) if self.norm else y
        return x + y * scale


def model(**kwargs):
    inputs = keras.Input((8,))
    scale = keras.layers.Dense(8)(inputs)  # a keyword tensor that needs its own gradient
    x = inputs
    for i in range(3):
        x = Block(name=f"block_{i}", **kwargs)(x, scale=scale)
    return keras.Model(inputs, keras.layers.Dense(3, dtype="float32")(x))


def trained(recompute, rate, execution, jit):
    source = workload(model=lambda: model(rate=rate), recompute=("block_0", "block_1", "block_2"))
    loop = AccumulationLoop(source, settings(execution, jit, recompute=recompute))
    for _ in range(3):
        loop.update()
    return loop


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_update_is_the_same(rate, execution, jit):
    """With dropout too: a mask drawn anew in the backward pass would give other gradients."""
    kept, again = (trained(recompute, rate, execution, jit) for recompute in (False, True))
    for mine, theirs in zip(again.model.get_weights(), kept.model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_what_would_be_spoilt_is_refused():
    source = workload(model=lambda: model(norm=True), recompute=("block_1",))
    with pytest.raises(UsageError, match=r"'block_1' cannot be recomputed.*statistics twice"):
        AccumulationLoop(source, settings(recompute=True))
    with pytest.raises(UsageError, match="no layer of the model; its layers are"):
        AccumulationLoop(workload(model=model, recompute=("block_9",)), settings(recompute=True))
    with pytest.raises(UsageError, match="names no blocks"):
        AccumulationLoop(workload(model=model), settings(recompute=True))


PEAK = """
import json, sys
import tensorflow as tf
from autotune.core.settings import TrainSettings
from autotune.training import AccumulationLoop
from autotune.workloads.charlm import workload
tf.config.threading.set_inter_op_parallelism_threads(1)
peaks = {}
for recompute in (False, True):
    settings = TrainSettings(global_batch=16, micro_batch=16, recompute=recompute)
    loop = AccumulationLoop(workload, settings, input_mode="resident")
    window = loop.prepare_window(16)
    loop.update(window)
    floor = tf.config.experimental.get_memory_info("CPU:0")["current"]
    tf.config.experimental.reset_memory_stats("CPU:0")
    loop.update(window)
    peaks[str(recompute)] = tf.config.experimental.get_memory_info("CPU:0")["peak"] - floor
print(json.dumps(peaks))
"""


def test_charlm_needs_less_memory():
    environment = {**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, env=environment, timeout=240
    )
    peaks = json.loads(done.stdout.splitlines()[-1])
    assert peaks["True"] < 0.6 * peaks["False"], peaks
