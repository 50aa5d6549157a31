"""Mistakes are told at construction, with the mend; what really ran is told afterwards."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.errors import UsageError
from autotune.training import AccumulationLoop, Parts
from autotune.training.windows import untuned
from tests.training.toys import (
    TOLERANCE,
    Reference,
    X,
    Y,
    cross_entropy,
    dense_model,
    settings,
    workload,
)


def refused(match, error=(ValueError, UsageError), settings_kwargs=None, **kwargs):
    with pytest.raises(error, match=match):
        AccumulationLoop(workload(**kwargs), settings(**(settings_kwargs or {})))


def test_reduced_loss():
    refused("one loss per sample or per token", loss=lambda m, b: tf.reduce_mean(cross_entropy(m, b)))


def test_weights_of_another_shape():
    refused("weights of the losses' own shape", loss=lambda m, b: (cross_entropy(m, b), tf.ones((4, 1))))


def test_metrics_in_place_of_weights():
    refused("None, metrics", loss=lambda m, b: (cross_entropy(m, b), {"a": b[1]}))
    refused("returned 4 values", loss=lambda m, b: (cross_entropy(m, b),) * 4)


def test_optimizer_that_accumulates():
    refused("would accumulate twice", optimizer=lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))


def test_optimizer_that_scales_is_unwrapped():
    source = workload(optimizer=lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))
    loop = AccumulationLoop(source, settings(precision="mixed_float16"))
    assert type(loop.optimizer).__name__ == "SGD"
    assert any("unwrapped" in sentence for sentence in loop.warnings)
    source = workload(optimizer=lambda: keras.optimizers.SGD(0.1, loss_scale_factor=8.0))
    loop = AccumulationLoop(source, settings())
    plain = AccumulationLoop(workload(), settings())
    loop.update()
    plain.update()
    for mine, theirs in zip(loop.model.get_weights(), plain.model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_model_without_trainable_variables():
    def frozen():
        model = dense_model()
        model.trainable = False
        return model

    refused("no trainable variables", model=frozen)


def test_loss_that_ignores_the_model():
    with pytest.raises(ValueError, match="does not depend on the model"):
        AccumulationLoop(workload(loss=lambda m, b: tf.reduce_sum(b[0], -1)), settings())


def test_labels_out_of_range():
    bad = Y.copy()
    bad[4] = 3
    refused("labels", data=(X, bad))


def test_data_that_cannot_be_cut():
    source = workload()
    for dataset, match in [
        (lambda: [1, 2], "return a tf.data.Dataset"),
        (lambda: tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])), "yield dense tensors"),
    ]:
        object.__setattr__(source, "dataset", dataset)
        with pytest.raises(UsageError, match=match):
            AccumulationLoop(source, settings())


def test_parts_that_exist_already():
    model = dense_model()
    parts = Parts(
        model=model,
        optimizer=keras.optimizers.SGD(0.1),
        loss=cross_entropy,
        dataset=untuned(tf.data.Dataset.from_tensor_slices((X, Y))),
        evaluate=lambda model: {"size": np.float32(model.count_params())},
    )
    loop = AccumulationLoop(parts, settings())
    assert loop.model is model
    reference = Reference(loop, workload())
    numbers = loop.fit(1)[0]
    reference.run(3)
    assert reference.distance(loop) < TOLERANCE["float32"]
    assert numbers["val_size"] == model.count_params()


def test_float16_outputs_and_softmax_are_warned_about():
    def softmax():
        return keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, activation="softmax", name="out")])

    def loss(model, batch):
        return keras.losses.sparse_categorical_crossentropy(batch[1], model(batch[0], training=True))

    loop = AccumulationLoop(workload(model=softmax, loss=loss), settings(precision="mixed_float16"))
    assert any("out: softmax in float16" in sentence for sentence in loop.warnings)
    plain = AccumulationLoop(
        workload(model=lambda: keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])),
        settings(precision="mixed_float16"),
    )
    assert any("float16, where a loss above 65504 overflows" in sentence for sentence in plain.warnings)
    assert not AccumulationLoop(workload(), settings(precision="mixed_float16")).warnings


def test_effective_says_what_really_ran():
    def stubborn():
        return keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(4, dtype="float32", name="a"),
                keras.layers.Dense(3, dtype="float32"),
            ]
        )

    loop = AccumulationLoop(workload(model=stubborn), settings(precision="mixed_bfloat16"))
    loop.update()
    told = loop.effective()
    assert told["precision"] == "float32" and told["jit_compile"] == "false" and told["execution"] == "fused"
    assert "a (float32)" in told["layers_that_differ"]
    assert any("mixed_bfloat16 was asked for" in sentence for sentence in loop.warnings)


def test_update_takes_no_value_to_the_host():
    """Results stay tensors, and no traced function holds an op that reads back into Python."""
    loop = AccumulationLoop(workload(), settings())
    result = loop.update()
    for value in (result.loss, result.applied, result.loss_scale, result.samples, result.grad_norm):
        assert isinstance(value, tf.Tensor)
    kinds = {
        op.type
        for function in loop.traced_functions
        for concrete in function._list_all_concrete_functions()
        for op in concrete.graph.get_operations()
    }
    assert not kinds & {"PyFunc", "EagerPyFunc", "PyFuncStateless", "Print", "PrintV2"}


def test_accumulators_exist_only_for_more_than_one_micro_batch():
    def adds(micro):
        loop = AccumulationLoop(workload(), settings("stepped", micro_batch=micro))
        loop.update()
        concrete = [c for f in loop.traced_functions for c in f._list_all_concrete_functions()]
        return len(
            {v.ref() for c in concrete for v in c.graph.variables} - {v.value.ref() for v in loop.model.variables}
        )

    assert adds(5) - adds(10) >= 4  # kernels and biases of two layers


def test_synchronize_and_counters():
    loop = AccumulationLoop(workload(), settings())
    loop.synchronize()
    loop.update()
    loop.synchronize()
    assert loop.updates_applied == 1 and loop.updates_skipped == 0 and loop.input_wait_s > 0
    assert loop.evaluate() is None
