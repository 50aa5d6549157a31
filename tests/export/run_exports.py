"""Executes exported lines in one TensorFlow process; run by ``test_export``.

Arguments: the folder of the exported files, and the candidates as JSON. Prints how many of each kind were run.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf


def build_model() -> keras.Model:
    keras.utils.set_random_seed(7)
    layers = [
        keras.layers.Input((8,)),
        keras.layers.Dense(16, activation="tanh"),
        keras.layers.Dense(1, dtype="float32"),
    ]
    return keras.Sequential(layers)


def squared_errors(model, batch):
    x, y = batch
    return tf.square(model(x, training=True)[:, 0] - y)


def run_keras(lines: str, candidate: dict) -> None:
    names: dict = {}
    exec(compile(lines, "keras lines", "exec"), names)
    optimizer = names["tuned_optimizer"](keras.optimizers.AdamW, learning_rate=1e-2)
    steps = -(-256 // candidate["micro_batch"])
    inner = optimizer
    if candidate.get("precision") == "mixed_float16":
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        assert optimizer.gradient_accumulation_steps is None
        assert optimizer.initial_scale == candidate.get("initial_loss_scale", 2.0**15)
        inner = optimizer.inner_optimizer
    assert inner.gradient_accumulation_steps == (steps if steps > 1 else None)
    model = build_model()
    assert model.layers[0].dtype_policy.name == (candidate.get("precision", "float32") or "float32")
    model.compile(optimizer=optimizer, loss="mse", **names["COMPILE"])
    before = [w.copy() for w in model.get_weights()]
    model.fit(np.ones((512, 8), "float32"), np.ones(512, "float32"), epochs=1, verbose=0, **names["FIT"])
    assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True)), "nothing was learned"


def run_python(lines: str, candidate: dict) -> None:
    names: dict = {}
    exec(compile(lines, "python lines", "exec"), names)
    generator = np.random.default_rng(3)
    batch = (
        tf.constant(generator.normal(size=(256, 8)), "float32"),
        tf.constant(generator.normal(size=256), "float32"),
    )
    model, reference = build_model(), build_model()
    update = names["make_update"](model, keras.optimizers.SGD(0.5), squared_errors)
    losses = [float(update(batch)) for _ in range(2)]
    assert losses[1] < losses[0]
    plain = keras.optimizers.SGD(0.5)
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(squared_errors(reference, batch))
        plain.apply(tape.gradient(loss, reference.trainable_variables), reference.trainable_variables)
    tolerance = 2e-2 if candidate.get("precision") == "mixed_float16" else 1e-5
    for ours, theirs in zip(model.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def main() -> None:
    folder, candidates = Path(sys.argv[1]), json.loads(sys.argv[2])
    done = {"keras": 0, "python": 0}
    for i, candidate in enumerate(candidates.values()):
        for target, run in (("keras", run_keras), ("python", run_python)):
            keras.config.set_dtype_policy("float32")
            run((folder / f"{target}-{i}.py").read_text(), candidate)
            done[target] += 1
    print(json.dumps(done))


if __name__ == "__main__":
    main()
