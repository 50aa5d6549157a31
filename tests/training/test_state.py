"""A loop that was saved and restored goes on to the bit as one that never stopped."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.core.settings import LossScaleSettings
from autotune.core.workload import Workload
from autotune.training import AccumulationLoop
from autotune.training.windows import untuned
from tests.training.toys import X, Y, cross_entropy, settings


def model():
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


def shuffled():
    return untuned(tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(26))


def generated():
    spec = (tf.TensorSpec([8], tf.float32), tf.TensorSpec([], tf.int32))
    return untuned(tf.data.Dataset.from_generator(lambda: zip(X, Y, strict=True), output_signature=spec))


def loss(model, batch):
    noisy = batch[0] + keras.random.normal(tf.shape(batch[0]), stddev=0.1)  # Keras's own global random state
    return cross_entropy(model, (noisy, batch[1]))


def make(dataset, execution="fused"):
    workload = Workload(
        model=model,
        optimizer=lambda: keras.optimizers.AdamW(0.01, use_ema=True, ema_overwrite_frequency=3),
        loss=loss,
        dataset=dataset,
    )
    scale = LossScaleSettings(growth_interval=3)
    return AccumulationLoop(
        workload, settings(execution, precision="mixed_float16", initial_loss_scale=64.0, loss_scale=scale)
    )


def everything(loop):
    return [np.asarray(variable) for variable in [*loop.model.variables, *loop.optimizer.variables]]


@pytest.mark.parametrize("execution", ["fused", "stepped", "unrolled"])
@pytest.mark.parametrize("dataset", [shuffled, generated])
def test_restored_run_is_bit_equal(tmp_path, dataset, execution):
    loop = make(dataset, execution)
    for _ in range(5):  # in the middle of the second epoch, and of a growth interval
        loop.update()
    path = loop.save(tmp_path / "state")
    straight = [float(loop.update().loss) for _ in range(6)]  # over two ends of an epoch

    fresh = make(dataset, execution)
    fresh.update()  # a loop that has already moved is brought back as well
    fresh.restore(path)
    assert fresh.updates_applied == 5 and fresh.loss_scale_value == 128.0
    assert [float(fresh.update().loss) for _ in range(6)] == straight
    for mine, theirs in zip(everything(fresh), everything(loop), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert fresh.loss_scale_value == loop.loss_scale_value == 512.0


def test_checkpoint_manager_works_on_the_state(tmp_path):
    loop = make(shuffled)
    manager = tf.train.CheckpointManager(loop.state, tmp_path, max_to_keep=1)
    loop.update()
    manager.save()
    expected = float(loop.update().loss)
    other = make(shuffled)
    other.state.restore(tf.train.latest_checkpoint(tmp_path)).assert_existing_objects_matched()
    assert float(other.update().loss) == expected


def test_state_of_another_model_is_refused(tmp_path):
    path = make(shuffled).save(tmp_path / "state")
    workload = Workload(
        model=lambda: keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)]),
        optimizer=lambda: keras.optimizers.SGD(0.1),
        loss=cross_entropy,
        dataset=shuffled,
    )
    with pytest.raises(ValueError, match="another model, optimizer or precision"):
        AccumulationLoop(workload, settings()).restore(path)
