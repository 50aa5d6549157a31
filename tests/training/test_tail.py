"""Windows are exact: every sample once per epoch, the tail used or dropped, no trace for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.errors import UsageError
from autotune.training import AccumulationLoop
from autotune.training.windows import untuned
from tests.training.toys import WAY_IDS, WAYS, Reference, settings, workload

IDS = np.arange(26, dtype=np.float32)


def counting(data=IDS):
    """A model of one weight whose gradient is minus the mean of the samples' numbers: an update says which it saw."""
    return workload(
        model=lambda: keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
        ),
        optimizer=lambda: keras.optimizers.SGD(1.0),
        loss=lambda model, batch: -model(batch[:, None], training=True)[:, 0],
        data=data,
    )


def moves(loop, updates):
    seen, before = [], 0.0
    for _ in range(updates):
        loop.update()
        now = float(loop.model.get_weights()[0][0, 0])
        seen.append(now - before)
        before = now
    return seen


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_tail_is_used_without_another_trace(execution, jit):
    loop = AccumulationLoop(counting(), settings(execution, jit))
    assert moves(loop, 6) == pytest.approx([4.5, 14.5, 22.5] * 2, rel=1e-6)
    tails = [loop.update(loop.prepare_window(samples)) for samples in range(1, 10)]
    assert [int(tail.samples) for tail in tails] == list(range(1, 10))
    traced = [function.experimental_get_tracing_count() for function in loop.traced_functions]
    assert set(traced) == {1}


@pytest.mark.parametrize("execution", ["fused", "stepped", "unrolled"])
def test_tail_is_dropped_on_request(execution):
    loop = AccumulationLoop(counting(), settings(execution, tail="drop"))
    assert moves(loop, 4) == pytest.approx([4.5, 14.5] * 2, rel=1e-6)


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_fewer_samples_than_a_micro_batch(execution, jit):
    loop = AccumulationLoop(counting(IDS[:3]), settings(execution, jit))
    assert moves(loop, 2) == pytest.approx([1.0, 1.0], rel=1e-6)


def test_fit_counts_epochs_and_updates():
    loop = AccumulationLoop(counting(), settings())
    epochs = []
    history = loop.fit(2, after_epoch=lambda epoch, numbers: epochs.append((epoch, numbers["samples"])))
    assert epochs == [(1, 26), (2, 26)]
    assert [numbers["updates_applied"] for numbers in history] == [3, 3]
    assert loop.updates_applied == 6 and loop.dataset_size == 26


def test_epoch_loss_is_the_mean_over_its_samples():
    source = workload(optimizer=lambda: keras.optimizers.SGD(0.0))
    loop = AccumulationLoop(source, settings())
    reference = Reference(loop, source)
    whole = reference.step(next(iter(reference.windows(26))))
    assert loop.fit(1)[0]["loss"] == pytest.approx(whole, rel=1e-6)


def test_data_of_unknown_size():
    def numbers():
        yield from IDS

    source = counting()
    spec = tf.TensorSpec([], tf.float32)
    object.__setattr__(
        source, "dataset", lambda: untuned(tf.data.Dataset.from_generator(numbers, output_signature=spec))
    )
    loop = AccumulationLoop(source, settings())
    assert loop.dataset_size is None
    assert moves(loop, 4) == pytest.approx([4.5, 14.5, 22.5, 4.5], rel=1e-6)


def test_nothing_to_train_on_is_refused():
    with pytest.raises(UsageError, match="empty"):
        AccumulationLoop(counting(IDS[:0]), settings())
    with pytest.raises(UsageError, match="tail='use'"):
        AccumulationLoop(counting(IDS[:3]), settings(tail="drop"))
    with pytest.raises(ValueError, match="1 to 10"):
        AccumulationLoop(counting(), settings()).prepare_window(11)


def test_resident_input_repeats_one_window():
    loop = AccumulationLoop(counting(), settings(), input_mode="resident")
    assert moves(loop, 3) == pytest.approx([4.5] * 3, rel=1e-6)
    assert loop.input_wait_s == 0
