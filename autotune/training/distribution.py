"""Several replicas: each accumulates on its own, and one reduction per update adds them up."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.errors import UsageError
from autotune.training.engine import Engine, Settled
from autotune.training.executions.fused import Fused, window_spec, window_weight
from autotune.training.executions.unrolled import Unrolled
from autotune.training.gradients import densify
from autotune.training.result import Sums, UpdateResult
from autotune.training.slices import Slicer, rows_of
from autotune.training.windows import Window


def choose_strategy(settings: TrainSettings, given: Any) -> Any:
    """The strategy to train under; None for a single device.

    Args:
        settings: the loop's settings.
        given: what the user passed, or None.

    Raises:
        UsageError: it has another number of replicas than the settings.
    """
    if given is None and settings.replicas == 1:
        return None
    if given is None:
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if len(devices) < settings.replicas:
            raise UsageError(
                f"{settings.replicas} replicas were asked for, but TensorFlow sees {len(devices)} devices; use fewer, "
                "or pass a strategy (tf.distribute.MultiWorkerMirroredStrategy for several machines)"
            )
        given = _mirrored(tuple(device.name for device in devices[: settings.replicas]))
    if given.num_replicas_in_sync != settings.replicas:
        raise UsageError(
            f"the strategy has {given.num_replicas_in_sync} replicas, the settings {settings.replicas}; set replicas "
            f"to {given.num_replicas_in_sync}"
        )
    return given


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> Any:
    """One strategy per process and set of devices.

    Every MirroredStrategy numbers its collective operations from the same start, and TensorFlow takes two of the same
    number for one: loops of different models would abort with a shape mismatch.
    """
    return tf.distribute.MirroredStrategy(list(devices))


class Replicated:
    """An update over several replicas.

    Every worker reads the same windows (the data set is seeded) and every replica cuts its own share out of them, so
    the global batch is the very one of a single device. A replica's share is accumulated by the ``fused`` or
    ``unrolled`` program of a single device; ``stepped`` accumulates as ``fused`` does. Gradients and sums then travel
    as one vector: one all-reduce per update. Whether it is finite is decided on the reduced vector, so all replicas
    decide alike.

    Args:
        engine: the model's update, built in the strategy's scope.
        settings: the loop's settings.
        batch_spec: specs of a window ``[None, ...]``.
        strategy: with as many replicas as the settings.
    """

    def __init__(self, engine: Engine, settings: TrainSettings, batch_spec: Any, strategy: Any) -> None:
        self._engine = engine
        self._strategy = strategy
        self._replicas = settings.replicas
        self._share_rows = settings.replica_batch
        self._padded = settings.accumulation_steps * settings.micro_batch
        self._jit = settings.jit_compile
        self._full_samples = settings.global_batch
        self._inner: list[Any] = []
        self.name = settings.execution if settings.execution == "unrolled" else "fused"
        self._whole = Slicer(settings.micro_batch, static=False)
        self._any = Fused(engine, settings, batch_spec, masked=True)
        unrolls = settings.execution == "unrolled" and settings.accumulation_steps > 1
        self._full = Unrolled(engine, settings, batch_spec) if unrolls else None
        spec = (window_spec(batch_spec, None), tf.TensorSpec([], tf.int32))
        self.function = tf.function(self._update_any, input_signature=spec, autograph=False)
        self._full_function = tf.function(self._update_full, input_signature=spec, autograph=False)

    @property
    def functions(self) -> tuple[Any, ...]:
        """The compiled functions of a full update; XLA compiles what runs inside a replica."""
        return tuple(self._inner) if self._jit else (self.last_function,)

    @property
    def last_function(self) -> Any:
        """The function that applies the update."""
        return self._full_function if self._full else self.function

    def update(self, window: Window) -> UpdateResult:
        """One update over a global window."""
        full = self._full is not None and window.samples == self._full_samples
        return (self._full_function if full else self.function)(window.batch, window.counted)

    def _update_any(self, batch: Any, window: Any) -> UpdateResult:
        return self._update(batch, window, self._any, self._padded if self._jit else None)

    def _update_full(self, batch: Any, window: Any) -> UpdateResult:
        return self._update(batch, window, self._full, self._share_rows)

    def _update(self, batch: Any, window: Any, local: Any, static_rows: int | None) -> UpdateResult:
        engine, strategy = self._engine, self._strategy
        reference = window_weight(engine, self._whole, batch, window)
        known = () if reference is None else (reference,)
        accumulate = tf.function(local.accumulate, jit_compile=self._jit or None, autograph=False)
        self._inner.append(accumulate)
        kept: dict[str, Any] = {}

        def gather(batch: Any, window: Any, *known: Any) -> Any:
            context = tf.distribute.get_replica_context()
            share, samples = self._share(batch, window, context.replica_id_in_sync_group, static_rows)
            before = engine.snapshot()
            gradients, sums = accumulate(share, samples, window, known[0] if known else None)
            gradients, sums, state = _reduce(context, gradients, sums, engine.snapshot())
            settled = engine.settle(gradients, sums)
            kept["variables"] = settled.variables
            return settled.gradients, settled.squared, settled.finite, sums, before, state

        gradients, squared, finite, sums, before, state = strategy.run(gather, args=(batch, window, *known))
        first = tf.nest.map_structure(
            lambda value: strategy.experimental_local_results(value)[0], (squared, finite, sums)
        )
        squared, finite, sums = first

        def apply() -> Any:
            with _no_second_reduction(engine.optimizer):
                strategy.run(lambda g: engine.apply(Settled(kept["variables"], g, None, None)), args=(gradients,))
            strategy.run(engine.put_back, args=(state,))
            return engine.applied.assign_add(1)

        def skip() -> Any:
            strategy.run(engine.put_back, args=(before,))
            return engine.skipped.assign_add(1)

        tf.cond(finite, apply, skip)
        return engine.report(Settled([], [], squared, finite), sums, window)

    def _share(self, batch: Any, window: Any, replica: Any, static_rows: int | None) -> tuple[Any, Any]:
        """This replica's rows of a window, at least one, and how many of them count.

        Where shapes are static, rows beyond its samples are copies; so is the one row of a replica that the tail of an
        epoch leaves without samples.
        """
        each = (window + self._replicas - 1) // self._replicas
        begin = tf.minimum(replica * each, window)
        samples = tf.minimum(each, window - begin)
        rows = tf.maximum(samples, 1) if static_rows is None else tf.constant(static_rows)
        with tf.device("CPU:0"):  # only the share goes to the device
            held = rows_of(batch)
            index = tf.minimum(begin + tf.range(rows) % tf.maximum(samples, 1), held - 1)
            share = tf.nest.map_structure(lambda tensor: tf.gather(tensor, index), batch)
        if static_rows is not None:
            share = tf.nest.map_structure(
                lambda tensor: tf.ensure_shape(tensor, [static_rows, *tensor.shape[1:]]), share
            )
        return share, samples


def _reduce(
    context: Any, gradients: Sequence[Any], sums: Sums, state: Sequence[Any]
) -> tuple[list[Any], Sums, list[Any]]:
    """Adds gradients and sums up over all replicas, and averages what their forward passes wrote, as one vector."""
    replicas = context.num_replicas_in_sync
    present = [index for index, gradient in enumerate(gradients) if gradient is not None]
    dense = [densify(gradients[index]) for index in present]
    scalars = tf.nest.flatten(sums._replace(reference=sums.reference / replicas))
    tensors = [*dense, *(tf.cast(value, tf.float32) / replicas for value in state)]
    vector = tf.concat([*(tf.reshape(tensor, [-1]) for tensor in tensors), tf.stack(scalars)], 0)
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    *parts, tail = tf.split(context.all_reduce(tf.distribute.ReduceOp.SUM, vector), [*sizes, len(scalars)])
    whole = [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
    reduced: list[Any] = [None] * len(gradients)
    for index, gradient in zip(present, whole, strict=False):
        reduced[index] = gradient
    averages = [tf.cast(mean, old.dtype) for mean, old in zip(whole[len(present) :], state, strict=True)]
    return reduced, tf.nest.pack_sequence_as(sums, tf.unstack(tail)), averages


@contextlib.contextmanager
def _no_second_reduction(optimizer: Any) -> Iterator[None]:
    """Keras 3's ``apply`` always sums gradients over replicas, and these are summed already."""
    if not hasattr(optimizer, "_all_reduce_sum_gradients"):
        yield
        return
    optimizer._all_reduce_sum_gradients = list
    try:
        yield
    finally:
        del optimizer._all_reduce_sum_gradients
