"""Mistake 6: the end of an epoch that is no whole window stays in the accumulator, for the next epoch or for nobody."""

import keras
import tensorflow as tf

import autotune

STEPS, MICRO = 4, 1
NUMBERS = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 5.0, 5.0]  # 10 samples: windows of 4, 4 and 2


def forgetful(epochs: int) -> list[float]:
    """The usual loop: apply after every fourth micro-batch, whatever epoch it is from."""
    weight, accumulator = tf.Variable(0.0), tf.Variable(0.0)
    moves, count = [], 0
    for _ in range(epochs):
        for x in NUMBERS:
            accumulator.assign_add(x)
            count += 1
            if count % STEPS == 0:
                weight.assign_sub(accumulator / STEPS)
                moves.append(float(accumulator) / STEPS)
                accumulator.assign(0.0)
    return moves


def exact(epochs: int) -> list[float]:
    """autotune's loop: the tail is a window of its own, weighted by what it holds."""
    workload = autotune.Workload(
        model=lambda: keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)]),
        optimizer=lambda: keras.optimizers.SGD(1.0),
        loss=lambda model, batch: model(batch[:, None], training=True)[:, 0],
        dataset=lambda: tf.data.Dataset.from_tensor_slices(NUMBERS),
    )
    loop = autotune.AccumulationLoop(workload, autotune.TrainSettings(global_batch=STEPS, micro_batch=MICRO))
    return [float(loop.update().grad_norm) for _ in range(3 * epochs)]


wrong, right = forgetful(2), exact(2)
print(f"gradients applied in two epochs: {wrong} (usual loop), {right} (tail used)")
assert right == [1.0, 2.0, 5.0, 1.0, 2.0, 5.0]
assert wrong == [1.0, 2.0, 3.0, 1.5, 3.5]  # 5, 5 mixed with the next epoch's 1, 1; every window after it is shifted
