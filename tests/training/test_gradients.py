"""Gradients of every kind: absent, sparse, shared, frozen; several inputs and outputs; dropout; ragged lengths."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autotune.training import AccumulationLoop
from autotune.training.windows import untuned
from tests.training.toys import (
    TOLERANCE,
    WAY_IDS,
    WAYS,
    Reference,
    X,
    Y,
    cross_entropy,
    flat,
    settings,
    workload,
)


class Unused(keras.Model):
    """One layer that nothing reads, and one that only batches with a large first feature use."""

    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(6, activation="tanh")
        self.never = keras.layers.Dense(6)
        self.rarely = keras.layers.Dense(6)
        self.last = keras.layers.Dense(3, dtype="float32")

    def build(self, shape):
        self.first.build(shape)
        self.never.build((None, 6))
        self.rarely.build((None, 6))
        self.last.build((None, 6))
        self.built = True

    def call(self, x, training=False):
        hidden = self.first(x)
        large = x[:, :1] > 1.0
        extra = tf.cond(tf.reduce_any(large), lambda: self.rarely(hidden), lambda: tf.zeros_like(hidden))
        return self.last(hidden + tf.where(large, extra, 0.0))


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_absent_gradients(execution, jit):
    # weight decay and momentum would move a variable without a gradient, were it given one of zeros
    source = workload(model=Unused, optimizer=lambda: keras.optimizers.AdamW(0.01, weight_decay=0.5))
    loop = AccumulationLoop(source, settings(execution, jit, micro_batch=1 if execution == "fused" else 4))
    before = loop.model.never.get_weights()
    reference = Reference(loop, source, traced=True)
    for _ in range(3):
        loop.update()
    reference.run(3)
    assert reference.distance(loop) < TOLERANCE["float32"]
    for old, new in zip(before, loop.model.never.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


IDS = np.random.default_rng(5).integers(0, 4, size=(26, 6)).astype(np.int32)  # 60 ids of 4 kinds: many repeats


def embedding_model():
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(50, 5),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


# One micro-batch (10 of 10) is the same program in every execution.
@pytest.mark.parametrize(
    ("micro", "execution", "jit"), [*((4, *way) for way in WAYS), (10, "fused", False), (10, "fused", True)]
)
def test_sparse_gradients_have_their_dense_norm(micro, execution, jit):
    source = workload(
        model=embedding_model, optimizer=lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.01), data=(IDS, Y)
    )
    loop = AccumulationLoop(source, settings(execution, jit, micro_batch=micro))
    reference = Reference(loop, source)  # makes its gradients dense before Keras clips them
    for _ in range(3):
        result = loop.update()
    reference.run(3)
    norm = np.linalg.norm(flat(reference.gradients))
    assert float(result.grad_norm) == pytest.approx(norm, rel=1e-5)
    assert reference.distance(loop) < 1e-4  # Adam divides by the gradient: rows with tiny ones round more


def test_shared_and_frozen_and_several_inputs_and_outputs():
    def model():
        left, right = keras.Input((8,), name="left"), keras.Input((8,), name="right")
        shared = keras.layers.Dense(6, activation="tanh", name="shared")
        frozen = keras.layers.Dense(6, name="frozen")
        both = keras.layers.Concatenate()([shared(left), frozen(shared(right))])
        outputs = {"class": keras.layers.Dense(3)(both), "size": keras.layers.Dense(1)(both)}
        built = keras.Model({"left": left, "right": right}, outputs)
        built.get_layer("frozen").trainable = False
        return built

    def loss(model, batch):
        outputs = model({"left": batch["left"], "right": batch["right"]}, training=True)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["y"], outputs["class"])
        return entropy + 0.1 * tf.square(outputs["size"][:, 0])

    source = workload(model=model, loss=loss, data={"left": X, "right": X[::-1].copy(), "y": Y})
    for execution in ("fused", "stepped", "unrolled"):
        loop = AccumulationLoop(source, settings(execution))
        frozen = loop.model.get_layer("frozen").get_weights()
        reference = Reference(loop, source)
        for _ in range(3):
            loop.update()
        reference.run(3)
        assert reference.distance(loop) < TOLERANCE["float32"]
        for old, new in zip(frozen, loop.model.get_layer("frozen").get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)


class Masks(keras.layers.Layer):
    """Dropout on ones, with every mask kept in a variable that the test reads."""

    def __init__(self):
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5)

    def build(self, shape):
        self.scale = self.add_weight(shape=(8,), initializer="ones")

    def call(self, x, training=False):
        return self.dropout(tf.ones_like(x), training=training) * self.scale


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_dropout_masks(execution, jit):
    """Each micro-batch has its own mask, each update other ones, and a seed gives them again."""

    def loss(model, batch):
        outputs = model(batch[0], training=True)
        pattern = tf.reduce_sum(tf.cast(outputs > 0, tf.float32) * 2.0 ** tf.range(8, dtype=tf.float32), -1)
        first = tf.one_hot(tf.zeros_like(pattern, tf.int32), 1)[:, 0]
        return tf.reduce_sum(outputs, -1), None, {"pattern": pattern * first}

    def patterns(seed):
        source = workload(model=lambda: keras.Sequential([keras.Input((8,)), Masks()]), loss=loss, data=(X[:4], Y[:4]))
        loop = AccumulationLoop(source, settings(execution, jit, global_batch=4, micro_batch=1, seed=seed))
        gradients = []
        for _ in range(3):
            before = flat(loop.model.trainable_variables)
            loop.update()
            gradients.append((before - flat(loop.model.trainable_variables)) / 0.1)
        return np.array(gradients)

    first, again, other = patterns(1), patterns(1), patterns(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    # the gradient of a scale is the mean of its masks over four samples, each 0 or 2: with one mask for all four
    # micro-batches it could only be 0 or 2
    kept = np.round(first / 0.5)
    np.testing.assert_allclose(first, kept * 0.5, atol=1e-5)
    assert set(np.unique(kept)) & {1.0, 2.0, 3.0}
    assert not np.array_equal(first[0], first[1])


_rng = np.random.default_rng(11)
SENTENCES = [_rng.integers(1, 9, size=length).astype(np.int32) for length in _rng.integers(2, 23, size=26)]


def sentence_workload(**kwargs):
    def dataset():
        spec = {"text": tf.TensorSpec([None], tf.int32)}
        samples = [{"text": text} for text in SENTENCES]
        return untuned(tf.data.Dataset.from_generator(lambda: samples, output_signature=spec))

    def model():
        return keras.Sequential(
            [keras.Input((None,), dtype="int32"), keras.layers.Embedding(9, 5), keras.layers.Dense(9, dtype="float32")]
        )

    def loss(model, batch):
        text = batch["text"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(text[:, 1:], model(text[:, :-1], training=True))
        return losses, tf.cast(text[:, 1:] > 0, tf.float32)

    built = workload(model=model, loss=loss, optimizer=lambda: keras.optimizers.SGD(1.0), **kwargs)
    object.__setattr__(built, "dataset", dataset)
    return built


@pytest.mark.parametrize(("execution", "jit"), WAYS, ids=WAY_IDS)
def test_ragged_lengths(execution, jit):
    source = sentence_workload()
    loop = AccumulationLoop(source, settings(execution, jit))
    reference = Reference.__new__(Reference)
    reference.model = source.model()
    reference.model.set_weights(loop.model.get_weights())
    reference.source, reference.scale, reference.optimizer = source, 1.0, keras.optimizers.SGD(1.0)
    reference.start = flat(reference.model.trainable_variables)
    for batch in source.dataset().padded_batch(10):
        loop.update()
        reference.step(batch)
    assert reference.distance(loop) < TOLERANCE["float32"]
    assert {function.experimental_get_tracing_count() for function in loop.traced_functions} == {1}
    window = loop.prepare_window(3)
    longest = max(map(len, SENTENCES))
    assert window.batch["text"].shape[1] == (24 if jit else longest)  # XLA sees the buckets 16, 24, 32 ... only
    assert f"({longest},)" in loop.shape_note
    loop.update(window)


def test_no_bucket_is_longer_than_the_longest_sample():
    """A model may have a table of just so many positions; XLA would read past its end without a word."""
    longest = max(map(len, SENTENCES))
    source = sentence_workload(longest=lambda: {"text": np.ones(longest, np.int32)})
    loop = AccumulationLoop(source, settings(jit=True))
    assert 16 < longest < 24
    assert loop.prepare_window(3).batch["text"].shape[1] == longest
    lengths = set()
    while not loop._windows.epoch:
        window = loop._windows.take()
        if window.samples:
            lengths.add(window.batch["text"].shape[1])
    assert lengths <= {2, 3, 4, 6, 8, 12, 16, longest}


def test_padding_value_and_longest_sample_of_the_workload():
    source = sentence_workload(pad={"text": 7}, longest=lambda: {"text": np.arange(1, 6, dtype=np.int64)})
    loop = AccumulationLoop(source, settings())
    window = loop.prepare_window(4)
    assert window.batch["text"].dtype == tf.int32
    np.testing.assert_array_equal(window.batch["text"], [[1, 2, 3, 4, 5]] * 4)
    assert loop.shape_note == "sized with workload.longest(): (5,)"
    first = loop._windows.take().batch["text"].numpy()
    assert (first[:, -1] == 7).sum() >= 5


def test_custom_losses_with_metrics():
    def loss(model, batch):
        losses = cross_entropy(model, batch)
        return losses, None, {"confident": tf.cast(losses < 1.0, tf.float32)}

    source = workload(loss=loss)
    loop = AccumulationLoop(source, settings(micro_batch=3))
    losses = cross_entropy(loop.model, (X[:10], Y[:10]))
    expected = np.mean(losses.numpy() < 1.0)
    assert float(loop.update().metrics["confident"]) == pytest.approx(expected)
    assert 0 <= loop.fit(1)[0]["confident"] <= 1


@pytest.mark.parametrize("kwargs", [{}, {"longest": lambda: {"text": SENTENCES[0]}}], ids=["looked for", "said"])
def test_a_prepared_window_leaves_no_tuning_thread_behind(kwargs, monkeypatch):
    """TensorFlow may wait a minute for that thread when an iterator is destroyed."""
    loop = AccumulationLoop(sentence_workload(**kwargs), settings())
    begin, tuned = tf.data.Dataset.__iter__, []

    def spied(dataset):
        tuned.append(dataset.options().autotune.enabled)
        return begin(dataset)

    monkeypatch.setattr(tf.data.Dataset, "__iter__", spied)
    loop.prepare_window(4)
    assert tuned and set(tuned) == {False}
