"""What the loop benchmark measures, run in a child process: one variant against one other, or one peak of memory."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time

BATCH = {"mlp": 512, "digits": 64, "charlm": 32}
OURS = [f"{execution}{jit}" for execution in ("fused", "stepped", "unrolled") for jit in ("", "-jit")]
LIMIT_MB = 8192


def workload_of(name, legacy=False):
    if legacy:  # the built-in workloads import Keras 3 by name
        import tf_keras

        sys.modules["keras"] = tf_keras
    return importlib.import_module(f"autotune.workloads.{name}").workload


def ours(name, batch, steps, variant):
    """Our loop over a window that stays in memory."""
    from autotune.core.settings import TrainSettings
    from autotune.training import AccumulationLoop

    execution, _, idea = variant.removesuffix("-jit").partition("+")
    settings = TrainSettings(
        global_batch=batch,
        micro_batch=(batch - 1) // (steps - 1) if idea == "uneven" else -(-batch // steps),
        execution=execution,
        jit_compile=variant.endswith("-jit"),
    )
    loop = AccumulationLoop(workload_of(name), settings, input_mode="resident")
    if idea and idea != "uneven":
        from tests.benchmarks.loop_ideas import IDEAS

        loop._execution = IDEAS[f"{execution}+{idea}"](loop._engine, settings, loop._windows.batch_spec)
    window = loop.prepare_window(batch)
    return lambda: loop.update(window).loss.numpy()


def full(name, batch, jit=False, legacy=False):
    """A plain training step on the full batch, with nothing of ours in it."""
    import tensorflow as tf

    workload = workload_of(name, legacy)
    model, optimizer = workload.model(), workload.optimizer()
    data = batch_of(workload, batch)

    @tf.function(jit_compile=jit or None)
    def step(batch):
        with tf.GradientTape() as tape:
            output = workload.loss(model, batch)
            losses, weights = output if isinstance(output, tuple) else (output, tf.ones_like(output))
            loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: step(data).numpy()


def batch_of(workload, batch):
    """The batch that our prepared windows hold: the first samples, or the longest repeated."""
    import tensorflow as tf

    dataset = workload.dataset()
    if workload.longest is not None:
        dataset = tf.data.Dataset.from_tensors(workload.longest()).repeat()
    return next(iter(dataset.batch(batch)))


def supervised(name, data):
    """(inputs, targets, weights) of a batch, as ``fit`` takes them."""
    import tensorflow as tf

    if name == "charlm":
        return data[:, :-1], data[:, 1:], tf.cast(data[:, 1:] != 0, tf.float32)
    return (*data, tf.ones_like(data[1], tf.float32))


def micro_batches(name, batch, steps, legacy=False):
    import tensorflow as tf

    arrays = supervised(name, batch_of(workload_of(name, legacy), batch))
    return iter(tf.data.Dataset.from_tensor_slices(arrays).batch(batch // steps).cache().repeat().prefetch(2))


def keras_fit(name, batch, steps):
    """What Keras's ``fit`` runs per micro-batch, with its own accumulation and its default compilation."""
    import keras

    workload = workload_of(name)
    model, optimizer = workload.model(), workload.optimizer()
    if steps > 1:
        optimizer.gradient_accumulation_steps = steps
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.make_train_function()
    function = model.train_function
    iterator = micro_batches(name, batch, steps)

    def update():
        for _ in range(steps):
            logs = function(iterator)
        return float(logs["loss"])

    return update


def gradient_accumulator(name, batch, steps):
    """GradientAccumulateModel of the PyPI package ``gradient-accumulator``; it needs legacy Keras."""
    import tf_keras
    from gradient_accumulator import GradientAccumulateModel

    built = workload_of(name, legacy=True).model()
    rate = {"mlp": 1e-3, "digits": 1e-3, "charlm": 3e-4}[name]
    model = GradientAccumulateModel(accum_steps=steps, inputs=built.input, outputs=built.output)
    model.compile(
        tf_keras.optimizers.legacy.Adam(rate), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    function = model.make_train_function()
    iterator = micro_batches(name, batch, steps, legacy=True)

    def update():
        for _ in range(steps):
            logs = function(iterator)
        return float(next(iter(logs.values())))

    return update


def build(name, batch, steps, variant):
    if variant.partition("+")[0].removesuffix("-jit") in ("fused", "stepped", "unrolled"):
        return ours(name, batch, steps, variant)
    if variant == "keras-fit":
        return keras_fit(name, batch, steps)
    if variant == "gradient-accumulator":
        return gradient_accumulator(name, batch, steps)
    return full(name, batch, jit=variant == "full-jit", legacy=variant == "full-legacy")


def pair(name, steps, variant, reference, rounds):
    """Interleaved rounds of two variants in one process.

    Returns:
        Seconds per update of each (medians), the median of the rounds' ratios with its quartiles, first-call seconds.
    """
    functions, first = [], []
    for each in (variant, reference):
        begin = time.perf_counter()
        functions.append(build(name, BATCH[name], steps, each))
        functions[-1]()
        first.append(time.perf_counter() - begin)
        functions[-1]()
    begin = time.perf_counter()
    functions[1]()
    repeats = max(1, round(0.25 / (time.perf_counter() - begin)))
    times = [[], []]
    for round_ in range(rounds):
        for which in (0, 1) if round_ % 2 else (1, 0):
            begin = time.perf_counter()
            for _ in range(repeats):
                functions[which]()
            times[which].append((time.perf_counter() - begin) / repeats)
    ratios = sorted(a / b for a, b in zip(*times, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "seconds": statistics.median(times[0]),
        "reference_seconds": statistics.median(times[1]),
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "first_call_s": first[0],
        "rounds": rounds,
    }


def peak(name, steps, variant, batch):
    """Peak bytes of the allocator in settled conditions: one inter-op thread, one region, no meta optimizer."""
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.zeros([int(LIMIT_MB * 0.8) << 20], tf.uint8)  # one large region, given back at once
    update = build(name, batch, steps, variant)
    update()
    tf.config.experimental.reset_memory_stats("CPU:0")
    update()
    update()
    return {"peak_bytes": tf.config.experimental.get_memory_info("CPU:0")["peak"]}


def environment_of(request):
    """Variables that the child's TensorFlow reads when it starts."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    if request["kind"] == "memory":
        variables |= {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MB)}
    if "gradient-accumulator" in (request["variant"], request.get("reference")):
        variables["TF_USE_LEGACY_KERAS"] = "1"
    return {**os.environ, **variables}


def main():
    request = json.loads(sys.argv[1])
    kind = request.pop("kind")
    print(json.dumps(pair(**request) if kind == "time" else peak(**request)))


if __name__ == "__main__":
    main()
