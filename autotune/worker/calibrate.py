"""Finds the initial loss scale of a workload at its initial weights, then runs it. One pass in a process of its own.

The gradients of a micro-batch are divided by the *window's* total weight, so an activation's gradient has the same size
whatever the micro-batch. A weight's gradient is summed over the micro-batch, in float16; the largest it can get is that
of the whole global batch in one step, so that is held below float16's largest number as well. One small micro-batch
therefore answers for all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from autotune.core.loss_scale_choice import (
    LARGEST_FLOAT16,
    Calibration,
    ScaleRow,
    Signs,
    initial_scale,
    largest_finite_power,
    underflow_share,
    warn,
)
from autotune.core.settings import DEFAULT_LOSS_SCALE, LossScaleSettings, TrainSettings
from autotune.core.trial import TrialSpec
from autotune.core.workload import Workload
from autotune.training import AccumulationLoop, flavour, parts
from autotune.training.engine import Engine
from autotune.training.gradients import densify
from autotune.training.loss_scale import LossScale
from autotune.training.losses import read_output
from autotune.training.windows import Windows

BATCHES = 4
RUN_UPDATES = 60
_RUN_S = 10.0  # of one scale's updates
_OFFSET, _BINS = 64, 128  # binary exponents -64 to 63


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One backward pass, as tensors.

    Attributes:
        finite: all gradients are finite.
        loss: sum of the losses.
        totals: dense gradients of the micro-batch.
        counts: ``[_BINS]`` float16 gradient values by binary exponent.
    """

    finite: bool
    loss: float
    totals: list[Any]
    counts: Any


def calibrate(workload: Workload, spec: TrialSpec) -> Calibration:
    """Finds the initial loss scale.

    Args:
        workload: the user's.
        spec: its candidate says the global batch, and the micro-batch to do it with.

    Raises:
        Exception: whatever the user's code or TensorFlow raises.
    """
    settings = spec.candidate.settings(seed=spec.seed)
    probe = _Probe(workload, settings)
    largest = largest_finite_power(probe.finite)
    passes = probe.passes
    counts = probe.counts(largest) if largest is not None else {}
    signs = probe.signs(finite_at_one=largest is not None and largest >= 0)
    scale = initial_scale(largest)
    rows = tuple(
        replace(row, underflow_share=_share(counts, largest, row.scale))
        for row in _run(workload, settings, scale, largest)
    )
    return Calibration(
        scale=scale,
        largest_finite=None if largest is None else 2.0**largest,
        backward_passes=passes,
        rows=rows,
        warnings=warn(signs, rows, largest),
    )


def _share(counts: dict[int, int], largest: int | None, scale: float) -> float | None:
    if largest is None or scale > 2.0**largest:
        return None
    return underflow_share(counts, largest - round(math.log2(scale)))


class _Probe:
    """Backward passes over the same few micro-batches at any scale; nothing is ever applied."""

    def __init__(self, workload: Workload, settings: TrainSettings) -> None:
        flavour.seed_everything(settings.seed)
        windows = Windows(
            workload.dataset(), samples=settings.micro_batch, rows=None, drop_tail=False, pad=workload.pad,
            bucketed=False,
        )  # fmt: skip
        self._precision = settings.precision
        with flavour.policy_scope(settings.precision):
            model = workload.model()
            anatomy = parts.examine(workload, model, windows.batch_spec)
            optimizer, _ = parts.build_optimizer(workload)
            self._scale = LossScale(LossScaleSettings(dynamic=False), 1.0, enabled=True)
        self._engine = Engine(workload, model, optimizer, anatomy, self._scale)
        self._window = settings.replica_batch
        self._batches = [w for _ in range(BATCHES) if (w := windows.take()).samples]
        self._backward = tf.function(self._trace, autograph=False)
        self.passes = 0

    def finite(self, power: int) -> bool:
        """Whether all gradients at scale 2**power are finite, those of the whole global batch in one step included."""
        return self._at(power)[0]

    def counts(self, power: int) -> dict[int, int]:
        """Gradient values by binary exponent at scale 2**power."""
        found = sum(p.counts.numpy() for p in self._at(power)[1])
        return {index - _OFFSET: int(count) for index, count in enumerate(found) if count}

    def signs(self, *, finite_at_one: bool) -> Signs:
        """What no scale can help."""
        first = self._batches[0]
        before = self._engine.snapshot()
        with flavour.policy_scope(self._precision):
            loss = self._losses(first.batch)
            written = [v.read_value() for v in self._engine.anatomy.written]
            self._engine.put_back(before)
            growth = self._growth(first.batch, first.samples, loss)
            self._engine.put_back(before)
        return Signs(
            finite_at_one=finite_at_one,
            loss_finite=_all_finite([loss]),
            state_finite=_all_finite(written),
            growth=growth,
        )

    def _growth(self, batch: Any, samples: int, losses: Any) -> float:
        half = samples // 2
        if not half or not _all_finite([losses]):
            return 1.0
        alone = self._losses(tf.nest.map_structure(lambda tensor: tensor[:half], batch))
        together = tf.reduce_sum(losses[:half])
        return float(tf.math.divide_no_nan(together, tf.reduce_sum(alone))) or 1.0

    def _losses(self, batch: Any) -> Any:
        return tf.cast(read_output(self._engine.workload.loss(self._engine.model, batch)).losses, tf.float32)

    def _at(self, power: int) -> tuple[bool, list[_Pass]]:
        done: list[_Pass] = []
        assert self._scale.value is not None
        self._scale.value.assign(2.0**power)
        for one in self._passes():
            done.append(one)
            if not one.finite:
                return False, done
        samples = sum(window.samples for window in self._batches)
        shares = zip(*(p.totals for p in done), strict=True)
        whole = [tf.add_n(list(same)) * (self._window / samples) for same in shares]
        largest = max(float(tf.reduce_max(tf.abs(total))) for total in whole)
        return largest <= LARGEST_FLOAT16, done

    def _passes(self) -> Iterator[_Pass]:
        before = self._engine.snapshot()
        for window in self._batches:
            with flavour.policy_scope(self._precision):
                finite, loss, totals, counts = self._backward(window.batch, window.counted)
            self._engine.put_back(before)
            self.passes += 1
            yield _Pass(finite=bool(finite), loss=float(loss), totals=totals, counts=counts)

    def _trace(self, batch: Any, rows: Any) -> tuple[Any, Any, list[Any], Any]:
        engine = self._engine
        reference = None
        if engine.knows_weight:
            reference = engine.total_weight(batch, None) * (self._window / tf.cast(rows, tf.float32))
        gradients, sums = engine.micro_gradients(batch, rows, tf.constant(self._window), reference, None)
        dense = [densify(gradient) for gradient in gradients if gradient is not None]
        finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in dense]))
        return finite, sums.loss, dense, tf.add_n([_count(tensor) for tensor in _half_precision(dense)])


def _half_precision(gradients: list[Any]) -> list[Any]:
    """The float16 tensors of the backward pass that is being traced, activations' gradients included.

    A tape names what it adds to a graph; where that shows nothing (all layers in float32), the weights' gradients.
    """
    graph = tf.compat.v1.get_default_graph()
    backward = (op for op in graph.get_operations() if "gradient_tape" in op.name)
    return [tensor for op in backward for tensor in op.outputs if tensor.dtype == tf.float16] or gradients


def _count(tensor: Any) -> Any:
    """Finite values other than zero by binary exponent, int32 ``[_BINS]``."""
    size = tf.reshape(tf.abs(tf.cast(tensor, tf.float32)), [-1])
    size = tf.boolean_mask(size, tf.logical_and(size > 0, tf.math.is_finite(size)))
    exponent = tf.bitwise.right_shift(tf.bitcast(size, tf.int32), 23) - 127  # exact, unlike a logarithm
    return tf.math.bincount(
        tf.clip_by_value(exponent + _OFFSET, 0, _BINS - 1), minlength=_BINS, maxlength=_BINS, dtype=tf.int32
    )


def _all_finite(tensors: list[Any]) -> bool:
    return all(bool(tf.reduce_all(tf.math.is_finite(tensor))) for tensor in tensors)


def _run(workload: Workload, settings: TrainSettings, scale: float, largest: int | None) -> list[ScaleRow]:
    """The rows of the table, ascending by scale, each but the trivial one with a run of its own."""
    roles = {1.0: "none", DEFAULT_LOSS_SCALE: "default"}
    if largest is not None:
        roles[2.0**largest] = "largest finite"
    roles[scale] = "chosen"
    rows = []
    for start, role in sorted(roles.items()):
        row = ScaleRow(scale=start, role=role)
        rows.append(row if role == "none" else _updates(workload, settings, row))
    return rows


def _updates(workload: Workload, settings: TrainSettings, row: ScaleRow) -> ScaleRow:
    loop = AccumulationLoop(workload, replace(settings, initial_loss_scale=row.scale))
    applied: list[bool] = []
    started = time.perf_counter()
    while len(applied) < RUN_UPDATES and (len(applied) < 2 or time.perf_counter() - started < _RUN_S):
        applied.append(bool(loop.update().applied))
    return replace(
        row,
        updates=len(applied),
        updates_skipped=applied.count(False),
        first_applied=applied.index(True) + 1 if True in applied else None,
        final_scale=loop.loss_scale_value,
    )
