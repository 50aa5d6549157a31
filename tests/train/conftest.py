import pytest

from autotune.config import TunedConfig
from autotune.core.candidate import Candidate
from autotune.core.tuned import Evidence, Hardware, Software, TunedRecord, WorkloadId

# 60 samples and a global batch of 16: three full updates and a tail of 12. Dropout, shuffling, weight decay, BatchNorm
# and a random generator of the loss's own: everything that a resumed run could get wrong. PAUSE slows it down.
USER_FILE = """
import os, time
import keras, numpy as np, tensorflow as tf
import autotune

X = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int32")


def model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8,)), layers.Dense(16, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.3),
        layers.Dense(2, dtype="float32"),
    ])


def optimizer():
    return keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.9), weight_decay=0.01)


def loss(model, batch):
    x, y = batch
    tf.py_function(lambda: time.sleep(float(os.environ.get("PAUSE", 0))), [], [])
    logits = model(x + keras.random.normal(tf.shape(x), stddev=0.1), training=True)
    right = tf.cast(tf.argmax(logits, -1, tf.int32) == y, tf.float32)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits), tf.ones_like(right), {"accuracy": right}


def samples():
    for x, y in zip(X, Y):
        yield x, y


def dataset():
    spec = (tf.TensorSpec([8], tf.float32), tf.TensorSpec([], tf.int32))
    return tf.data.Dataset.from_generator(samples, output_signature=spec).shuffle(20)


def evaluate(model):
    print("validating")
    return {"loss": float(tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(Y, model(X), from_logits=True)))}


workload = autotune.Workload(model=model, optimizer=optimizer, loss=loss, dataset=dataset, evaluate=evaluate)
"""


def write_config(path, seed=3, **axes):
    config = TunedConfig(
        TunedRecord(
            config=Candidate(**{"global_batch": 16, "micro_batch": 6, **axes}),
            evidence=Evidence(
                samples_per_s=1.0, samples_per_s_low=1.0, samples_per_s_high=1.0, updates_measured=5, trials_run=1,
                confirmed=True,
            ),
            hardware=Hardware(device="cpu", kind="cpu"),
            software=Software(autotune="0.1.0", python="3.11"),
            workload=WorkloadId(entry_point="user.py", source_hash="0"),
            seed=seed,
        )
    )  # fmt: skip
    config.save(path)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user.py").write_text(USER_FILE)
    write_config(tmp_path / "tuned.toml", precision="mixed_float16", initial_loss_scale=2.0**17)
    return tmp_path
