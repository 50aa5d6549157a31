"""Run in a process of its own by test_distribution.py: trains on two replicas and prints what happened as JSON.

``python -m tests.training.replicas mirrored`` uses two logical CPUs of one process; ``worker``, with TF_CONFIG set, is
one of two processes.
"""

import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from autotune.training import AccumulationLoop
from autotune.training.flavour import components, raw
from tests.training.toys import (
    WAYS,
    Reference,
    W,
    X,
    Y,
    cross_entropy,
    settings,
    weighted_cross_entropy,
    weights,
    workload,
)

# A tail of one sample: the second replica has none. The second window overflows float16, on the second replica only.
DATA = (X[:21], Y[:21], W[:21])
BAD = X[:21].copy()
BAD[17] = 1e30
REDUCTIONS = ("CollectiveReduceV2", "CollectiveReduce", "NcclAllReduce", "CollectiveReduceV3")


def optimizer():
    return keras.optimizers.AdamW(0.01, epsilon=1e-3, global_clipnorm=0.2, use_ema=True)


def reductions(loop):
    """All-reduces in an update's graph, and sums over replicas where a single process adds them up itself."""
    concrete = loop.update_function._list_all_concrete_functions()[-1]
    names = [op.type for op in concrete.graph.get_operations()]
    for function in concrete.graph._functions.values():
        definition = getattr(function, "cached_definition", None) or function.function_def
        names += [node.op for node in definition.node_def]
    return sum(name in REDUCTIONS for name in names)


def equivalence(strategy, ways):
    told = {}
    source = workload(optimizer=optimizer, loss=weighted_cross_entropy, data=DATA)
    for execution, jit in ways:
        loop = AccumulationLoop(source, settings(execution, jit, replicas=2, micro_batch=2), strategy=strategy)
        reference = Reference(loop, source)
        results = [loop.update() for _ in range(6)]
        losses = reference.run(6)
        told[f"{execution}-{jit}"] = {
            "distance": reference.distance(loop),
            "loss_error": float(np.abs(np.array([float(r.loss) for r in results]) - losses).max()),
            "samples": [int(r.samples) for r in results],
            "iterations": int(np.asarray(loop.optimizer.iterations)),
            "reductions": reductions(loop),
            "jit": loop.effective()["jit_compile"],
        }
    return told


def overflow(strategy):
    source = workload(optimizer=optimizer, data=(BAD, Y[:21]), loss=cross_entropy)
    kwargs = {"precision": "mixed_float16", "initial_loss_scale": 64.0, "micro_batch": 2}
    loop = AccumulationLoop(source, settings(replicas=2, **kwargs), strategy=strategy)
    first = bool(loop.update().applied)
    before = weights(loop)
    second = loop.update()
    untouched = bool(np.array_equal(before, weights(loop)))
    third = bool(loop.update().applied)
    return {
        "applied": [first, bool(second.applied), third],
        "untouched": untouched,
        "scale": loop.loss_scale_value,
        "counts": [loop.updates_applied, loop.updates_skipped, int(np.asarray(loop.optimizer.iterations))],
        "finite": bool(np.isfinite(weights(loop)).all()),
        "weights": weights(loop).tolist(),
    }


def normalised():
    return keras.Sequential([keras.Input((8,)), keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dense(3)])


def batch_norm(strategy, ways):
    """Running mean of each way after one update of 2 x 6 samples, and whether a skipped update leaves it alone."""
    bad = X[:21].copy()
    bad[17] = np.inf
    told, split = {}, {"global_batch": 12, "micro_batch": 3}
    for execution, jit in ways:
        source = workload(model=normalised, data=(bad, Y[:21]))
        loop = AccumulationLoop(source, settings(execution, jit, replicas=2, **split), strategy=strategy)
        loop.update()

        def running(loop=loop):
            return [np.asarray(part).tolist() for part in components(raw(loop.model.layers[0].moving_mean))]

        first = running()
        skipped = not bool(loop.update().applied)
        told[f"{execution}-{jit}"] = {"means": first, "untouched": skipped and running() == first}
        told[f"{execution}-{jit}"]["reductions"] = reductions(loop)
    return told


def restored(strategy):
    source = workload(optimizer=optimizer, data=(X[:21], Y[:21]))
    loop = AccumulationLoop(source, settings(replicas=2, micro_batch=2), strategy=strategy)
    for _ in range(4):
        loop.update()
    with tempfile.TemporaryDirectory() as folder:
        path = loop.save(Path(folder) / "state")
        straight = [float(loop.update().loss) for _ in range(4)]
        other = AccumulationLoop(source, settings(replicas=2, micro_batch=2), strategy=strategy)
        other.restore(path)
        return [float(other.update().loss) for _ in range(4)] == straight


def main(mode):
    if mode == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        strategy, ways = None, WAYS
    else:
        strategy, ways = tf.distribute.MultiWorkerMirroredStrategy(), [("fused", False), ("unrolled", True)]
    print(
        json.dumps(
            {
                "equivalence": equivalence(strategy, ways),
                "overflow": overflow(strategy),
                "batch_norm": batch_norm(strategy, ways),
                "restored": restored(strategy),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
