"""A decoder-only transformer on the bytes of a real book (Ambrose Bierce, The Devil's Dictionary), one line per sample.

Lines differ in length, so the loss is weighted by token, and memory is sized on the longest line. An ordinary workload:
copy this file, change what you like, and run ``autotune tune yours.py --global-batch 64``.
"""

import gzip
from importlib.resources import files

import keras
import tensorflow as tf

import autotune

VOCABULARY = 256
CONTEXT = 128
WIDTH = 256
HEADS = 4
LAYERS = 4


class Block(keras.layers.Layer):
    """Pre-norm attention and feed-forward block on (batch, tokens, width)."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.norm_1 = keras.layers.LayerNormalization()
        self.attention = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.norm_2 = keras.layers.LayerNormalization()
        self.widen = keras.layers.Dense(4 * WIDTH, activation="gelu")
        self.narrow = keras.layers.Dense(WIDTH)

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.norm_1.build(shape)
        self.attention.build(shape, shape)
        self.norm_2.build(shape)
        self.widen.build(shape)
        self.narrow.build((*shape[:-1], 4 * WIDTH))
        super().build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        y = self.norm_1(x)
        x = x + self.attention(y, y, use_causal_mask=True)
        return x + self.narrow(self.widen(self.norm_2(x)))


class Embed(keras.layers.Layer):
    """Token and position embedding: (batch, tokens) of int32 -> (batch, tokens, width)."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.tokens = keras.layers.Embedding(VOCABULARY, WIDTH)
        self.positions = keras.layers.Embedding(CONTEXT, WIDTH)

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.tokens.build()
        self.positions.build()
        super().build(shape)

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        return self.tokens(tokens) + self.positions(tf.range(tf.shape(tokens)[1]))


def model() -> keras.Model:
    inputs = keras.Input((None,), dtype="int32")
    x = Embed(name="embed")(inputs)
    for i in range(LAYERS):
        x = Block(name=f"block_{i}")(x)
    x = keras.layers.LayerNormalization(name="norm")(x)
    # float32 logits under every policy: softmax and its gradient do not survive float16.
    return keras.Model(inputs, keras.layers.Dense(VOCABULARY, dtype="float32", name="logits")(x), name="charlm")


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.AdamW(3e-4, weight_decay=0.01, global_clipnorm=1.0)


def loss(model: keras.Model, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Next-byte cross entropy of (batch, tokens); padding has weight 0."""
    logits = model(tokens[:, :-1], training=True)
    targets = tokens[:, 1:]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return losses, tf.cast(targets != 0, tf.float32)


def _lines() -> list[bytes]:
    with gzip.open((files("autotune.workloads") / "data" / "devils_dictionary.txt.gz").open("rb")) as file:
        return [line[:CONTEXT] + b"\n" for line in file.read().splitlines()]


def dataset() -> tf.data.Dataset:
    """Each sample is one line: a vector of 3 to 129 bytes (no byte is 0, which pads)."""
    lines = tf.data.Dataset.from_tensor_slices(_lines())
    return lines.map(lambda line: tf.cast(tf.io.decode_raw(line, tf.uint8), tf.int32))


def longest() -> tf.Tensor:
    line = max(_lines(), key=len)
    return tf.constant(list(line), tf.int32)


workload = autotune.Workload(
    model=model,
    optimizer=optimizer,
    loss=loss,
    dataset=dataset,
    longest=longest,
    recompute=tuple(f"block_{i}" for i in range(LAYERS)),
)
