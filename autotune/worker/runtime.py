"""Conditions of the TensorFlow runtime in a trial process. All of it must come before the first op.

Why a memory pass on a CPU is settled the way it is: with two executor threads the order of ops, and so the peak,
differs from run to run by 15 %; a region that grows by doubling inflates the peak; grappler's memory rewrites make it
jump. With all three out of the way two fresh processes agree to the byte.
"""

from __future__ import annotations

import tensorflow as tf

MIB = 1 << 20
_REGION_SHARE = 0.9  # a first region of the whole limit would itself be out of memory
_REGION_UNLIMITED = 4 * 1024 * MIB  # its bookkeeping costs 3 % of it


def settle_cpu(limit_bytes: int | None, usable_bytes: int) -> tuple[int, list[str]]:
    """Makes the CPU's allocator peak repeatable, and takes one large region for it.

    Args:
        limit_bytes: the limit that this process was started with.
        usable_bytes: memory of the machine.

    Returns:
        bytes of the region, and sentences about what could not be settled.
    """
    warnings = []
    try:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        warnings.append(
            "the file runs TensorFlow ops while it is imported, so the memory pass could not run on one executor "
            "thread; its peak may vary from run to run"
        )
    prepare_graphs_anew(0)
    wanted = limit_bytes * _REGION_SHARE if limit_bytes else min(_REGION_UNLIMITED, usable_bytes / 2)
    region = max(1, int(wanted) // MIB)
    with tf.device("CPU:0"):
        tf.raw_ops.Empty(shape=[region, MIB], dtype=tf.uint8)
    return region * MIB, warnings


def prepare_graphs_anew(count: int) -> None:
    """Has every function prepared again at its next call, with the graph optimizer off.

    Args:
        count: another one than the last time: an option that says nothing while the optimizer is off, but is part of
            what TensorFlow keeps its prepared functions by.
    """
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True, "min_graph_nodes": 4 + count})


def limit_gpu(limit_bytes: int | None) -> list[str]:
    """Gives this process at most ``limit_bytes`` of its GPU; without a limit TensorFlow takes all that is free.

    Returns:
        sentences about what could not be set.
    """
    if limit_bytes is None:
        return []
    gpu = tf.config.list_physical_devices("GPU")[0]
    try:
        tf.config.experimental.set_memory_growth(gpu, False)
        configuration = tf.config.LogicalDeviceConfiguration(memory_limit=max(1, limit_bytes // MIB))
        tf.config.set_logical_device_configuration(gpu, [configuration])
    except (RuntimeError, ValueError) as problem:
        return [f"the memory limit could not be set beforehand, it is judged by the peak: {problem}"]
    return []
