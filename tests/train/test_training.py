"""What a training process does, inside it."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.core.candidate import Candidate
from autotune.core.training_run import Began, EpochEnded, Progress, RunRecord, TrainRequest
from autotune.core.tuned import WorkloadId
from autotune.core.workload import Workload, WorkloadRef
from autotune.errors import AutotuneError, UsageError
from autotune.worker.train_run import StoppedError, Training

X = np.random.default_rng(0).normal(size=(22, 4)).astype(np.float32)


def workload(**parts):
    def model():
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])

    base = Workload(
        model=model,
        optimizer=lambda: keras.optimizers.SGD(0.1),
        loss=lambda model, batch: tf.square(model(batch)[:, 0] - 1.0),
        dataset=lambda: tf.data.Dataset.from_tensor_slices(X),
    )
    return dataclasses.replace(base, **parts)


@pytest.fixture
def train(tmp_path):
    def run(work, epochs=2, out="run", stop=lambda: False, resume=False, **axes):
        request = TrainRequest(
            workload=WorkloadRef(path="user.py", display="user.py"),
            run=RunRecord(
                workload=WorkloadId(entry_point="user.py", source_hash="0"),
                config=Candidate(**{"global_batch": 8, "micro_batch": 4, **axes}),
                seed=0,
                device="cpu",
            ),
            folder=str(tmp_path / out),
            epochs=epochs,
            resume=resume,
            checkpoint_every_s=600.0,
            parent=0,
            events=0,
        )
        events = []
        Training(work, request, events.append, stop).run(lambda folder: None)
        return [event for event in events if not isinstance(event, Progress)], tmp_path / out

    return run


def scalars(folder):
    found = {}
    for file in sorted((folder / "tensorboard").iterdir()):
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_an_epoch_has_every_sample_once_and_its_loss_is_the_mean_over_samples(train):
    seen = []

    def loss(model, batch):
        tf.py_function(lambda rows: seen.extend(rows.numpy()[:, 0].tolist()), [batch], [])
        return tf.square(tf.stop_gradient(model(batch)[:, 0]) * 0 + batch[:, 0]) + 0 * model(batch)[:, 0]

    events, folder = train(workload(loss=loss), epochs=1)
    began, ended = events
    assert isinstance(began, Began) and began.updates_per_epoch == 3
    assert isinstance(ended, EpochEnded)
    assert ended.numbers["updates_applied"] == 3
    np.testing.assert_allclose(ended.numbers["loss"], np.mean(np.square(X[:, 0], dtype=np.float64)), rtol=1e-6)
    assert sorted(seen[-22:]) == sorted(X[:, 0].tolist())
    assert (folder / "metrics.csv").read_text().startswith("epoch,loss,")


def test_tensorboard_has_every_number_of_the_table(train):
    events, folder = train(workload(evaluate=lambda model: {"mean": tf.reduce_mean(model(X))}))
    found = scalars(folder)
    for ended in events[1:]:
        for name, value in ended.numbers.items():
            if name != "epoch":
                assert found[f"epoch/{name}", ended.numbers["updates_total"]] == pytest.approx(value, rel=1e-6)
    assert "val_mean" in events[-1].numbers


def test_a_run_can_be_made_longer(train):
    use_ema = workload(optimizer=lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5))
    _, long = train(use_ema, epochs=4, out="long")
    train(use_ema, epochs=2, out="grown")  # ends with averaged weights, from which training must not go on
    events, grown = train(use_ema, epochs=4, out="grown", resume=True)
    assert [event.epoch for event in events] == [2, 3, 4]
    assert (long / "model.weights.h5").stat().st_size == (grown / "model.weights.h5").stat().st_size
    rows = [(folder / "metrics.csv").read_text().splitlines()[-1].split(",")[:5] for folder in (long, grown)]
    assert rows[0] == rows[1]
    assert [event.epoch for event in train(use_ema, epochs=4, out="grown", resume=True)[0]] == [4]  # nothing to do
    with pytest.raises(UsageError, match="beyond 3 epochs already"):
        train(use_ema, epochs=3, out="grown", resume=True)


def test_stopping_after_an_epoch_leaves_its_row_and_checkpoint(train):
    asked = []
    with pytest.raises(StoppedError, match="after epoch 1 of 2"):
        train(workload(evaluate=lambda model: asked.append(1)), stop=lambda: bool(asked))
    events, folder = train(workload(), resume=True)
    assert [event.epoch for event in events] == [1, 2]
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (lambda: tf.data.Dataset.from_tensor_slices(X).repeat(), "never ends"),
        (lambda: tf.data.Dataset.from_tensor_slices(X).filter(lambda row: False), "is empty"),
    ],
)
def test_data_sets_without_an_epoch(train, dataset, says):
    with pytest.raises(UsageError, match=says):
        train(workload(dataset=dataset))


def test_training_on_nothing_ends(train):
    diverged = workload(loss=lambda model, batch: model(batch)[:, 0] * float("inf"))
    with pytest.raises(AutotuneError, match="no update of epoch 1 was applied"):
        train(diverged)
    with pytest.raises(AutotuneError, match="no update of epoch"):
        train(diverged, epochs=60, out="half", precision="mixed_float16", initial_loss_scale=2.0**-10)


def test_the_state_of_another_model_is_refused(train):
    train(workload(), epochs=1)
    wider = workload(model=lambda: keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
    with pytest.raises(UsageError, match="another model, optimizer or precision"):
        train(wider, resume=True)


def test_moving_a_run_to_other_micro_batches_is_said(train):
    train(workload(), epochs=1)
    events, _ = train(workload(), resume=True, micro_batch=8)
    assert "micro_batch (4 stored, 8 now)" in events[0].notes[0]
