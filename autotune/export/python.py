"""The lines of a custom loop: constants, and an update that accumulates correctly. They need TensorFlow and Keras."""

from __future__ import annotations

import json

from autotune.config import TunedConfig
from autotune.core.settings import DEFAULT_LOSS_SCALE
from autotune.export._settings import named_settings, origin

HELP = "lines of a custom loop: constants, and one correct update"

_LOOP = '''

def make_update(model, optimizer, loss):
    """Returns update(batch): one optimizer step over one global batch.

    loss(model, batch) returns one loss per sample, not reduced; a batch is a tensor, or tuples and dicts of them.
    """
{wrap}    optimizer.build(model.trainable_variables)
    sums = [tf.Variable(tf.zeros(v.shape, "float32"), trainable=False) for v in model.trainable_variables]

    @tf.function(jit_compile={jit})
    def add(micro_batch, weight):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.cast(loss(model, micro_batch), "float32")) * weight
            scaled = optimizer.scale_loss(total)
        for held, gradient in zip(sums, tape.gradient(scaled, model.trainable_variables)):
            if gradient is not None:
                held.assign_add(tf.cast(gradient, "float32"))
        return total

    @tf.function
    def apply():
        optimizer.apply([tf.convert_to_tensor(held) for held in sums], model.trainable_variables)
        for held in sums:
            held.assign(tf.zeros_like(held))

    def update(batch):
        size = int(tf.nest.flatten(batch)[0].shape[0])
        value = 0.0
        for start in range(0, size, MICRO_BATCH):
            part = tf.nest.map_structure(lambda whole: whole[start : start + MICRO_BATCH], batch)
            # By what the whole batch holds, so that a smaller last micro-batch counts for what it is.
            value += add(part, tf.constant(1 / size, "float32"))
        apply()
        return value

    return update
'''

_WRAP = "    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=INITIAL_LOSS_SCALE)\n"


def render(config: TunedConfig) -> str:
    """Returns Python lines."""
    candidate = config.record.config
    scaled = candidate.precision == "mixed_float16"
    settings = named_settings(config)
    if scaled:
        settings.setdefault("initial_loss_scale", DEFAULT_LOSS_SCALE)
    constants = "\n".join(
        f"{name.upper()} = {json.dumps(value) if isinstance(value, str) else repr(value)}"
        for name, value in settings.items()
    )
    policy = "\nkeras.config.set_dtype_policy(PRECISION)  # before the model is built\n" if candidate.precision else ""
    loop = _LOOP.format(
        wrap=_WRAP if scaled else "", jit="JIT_COMPILE" if candidate.jit_compile is not None else "False"
    )
    return f"""# {origin(config)}
import keras
import tensorflow as tf

{constants}
{policy}{loop}{_remarks(config)}"""


def _remarks(config: TunedConfig) -> str:
    candidate = config.record.config
    remarks = []
    if candidate.execution not in (None, "stepped") and candidate.accumulation_steps > 1:
        remarks.append(
            f'# Measured as {candidate.execution!r}; this loop is "stepped". The measured one is\n'
            "# autotune.AccumulationLoop(workload, autotune.TunedConfig.load(path).settings())."
        )
    if candidate.replicas > 1:
        remarks.append(
            f"# Tuned for {candidate.replicas} replicas; this loop is one replica's: reduce the sums before apply."
        )
    if candidate.recompute:
        remarks.append("# Measured with recomputed blocks: wrap them in keras.remat.")
    return "".join(f"\n{remark}\n" for remark in remarks)
