"""The parts of an update that every execution shares: one micro-batch's gradients, and what ends a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from autotune.core.workload import Workload
from autotune.training import flavour
from autotune.training.gradients import all_finite, densify, squared_norm
from autotune.training.loss_scale import LossScale
from autotune.training.losses import metric_sums, read_output, spread, weighted
from autotune.training.parts import Anatomy, extra_losses
from autotune.training.result import Sums, UpdateResult


class Settled(NamedTuple):
    """A window's gradient, ready to be applied.

    Attributes:
        variables: Keras's trainable variables that have a gradient.
        gradients: theirs; dense, float32.
        squared: sum of their squares, float32 scalar.
        finite: bool scalar.
    """

    variables: list[Any]
    gradients: list[Any]
    squared: Any
    finite: Any


class Engine:
    """One model's update, as graph pieces. Holds no state of a window.

    Args:
        workload: the user's functions.
        model: built under its policy.
        optimizer: built.
        anatomy: what :func:`autotune.training.parts.examine` saw.
        scale: the loss scale.

    Attributes:
        variables: Keras's trainable variables that receive updates, in the order of every gradient list here.
        applied: int64 variable, updates applied.
        skipped: int64 variable, updates skipped.
    """

    def __init__(self, workload: Workload, model: Any, optimizer: Any, anatomy: Anatomy, scale: LossScale) -> None:
        self.workload = workload
        self.model = model
        self.optimizer = optimizer
        self.anatomy = anatomy
        self.scale = scale
        self.variables = list(anatomy.trained)
        self.applied = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates_applied")
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates_skipped")
        self._raw = [flavour.raw(variable) for variable in self.variables]
        self._estimates = anatomy.weights is not None and anatomy.weights.reads_variables
        if self._estimates and anatomy.has_extra:
            raise ValueError(
                "the loss function's weights depend on the model's variables while the model has regularisation "
                "losses, so their proportion cannot be kept; compute the weights from the batch alone"
            )

    @property
    def knows_weight(self) -> bool:
        """Whether a window's total weight must be computed before its first backward pass."""
        return self.anatomy.weights is not None and not self._estimates

    @property
    def needs_unscaling(self) -> bool:
        """Whether accumulated gradients differ from the mean's by a factor."""
        return self.scale.enabled or self._estimates

    def total_weight(self, batch: Any, mask: Any) -> Any:
        """Total weight of one micro-batch, float32 scalar, from the batch alone; only where ``knows_weight``.

        The backward pass of every micro-batch divides by the *window's* total weight, so that gradients keep the size
        of a mean's whatever the accumulation; hence the total must be known before the first backward pass.
        """
        assert self.anatomy.weights is not None
        weights = tf.cast(self.anatomy.weights(batch), tf.float32)
        return tf.reduce_sum(weights if mask is None else weights * spread(mask, weights))

    def no_sums(self) -> Sums:
        """The empty sum that a window starts from."""
        zero = tf.constant(0.0)
        return Sums(zero, zero, zero, zero, dict.fromkeys(self.anatomy.metric_names, (zero, zero)))

    def no_gradients(self) -> list[Any]:
        """float32 zeros, one accumulator per variable."""
        return [tf.zeros(value.shape, tf.float32) for value in self._raw]

    def micro_gradients(self, batch: Any, rows: Any, window: Any, reference: Any, mask: Any) -> tuple[list[Any], Sums]:
        """Forward and backward pass of one micro-batch.

        Args:
            batch: the micro-batch.
            rows: real samples in it, int32 scalar.
            window: real samples of the window, int32 scalar.
            reference: the window's total weight where known beforehand, else None.
            mask: float32 ``[rows]``, 0 for padding rows, or None.

        Returns:
            (gradients of loss / reference * scale, as the tape gave them: dense, sparse or None; this micro-batch's
            sums).
        """
        share = tf.cast(rows, tf.float32) / tf.cast(window, tf.float32)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._raw)
            output = read_output(self.workload.loss(self.model, batch))
            loss, weight = weighted(output.losses, output.weights, mask)
            extra = extra_losses(self.workload, self.model) if self.anatomy.has_extra else None
            if reference is None:  # as many losses per sample in each micro-batch: the mean over the window
                per_sample = tf.cast(tf.size(output.losses) // tf.maximum(tf.shape(output.losses)[0], 1), tf.float32)
                reference = per_sample * tf.cast(window, tf.float32)
            objective = tf.math.divide_no_nan(loss, reference)
            if extra is not None:
                objective += extra * share
            if self.scale.enabled:
                objective *= self.scale.current()
        gradients = tape.gradient(objective, self._raw)
        zero = tf.constant(0.0)
        sums = Sums(
            loss=loss,
            weight=weight,
            extra=zero if extra is None else extra * share,
            reference=reference,
            metrics=metric_sums(output, mask, share),
        )
        return gradients, sums

    def snapshot(self) -> list[Any]:
        """What the forward pass may spoil (BatchNorm's statistics), as it is before the window."""
        return [tf.identity(variable.read_value()) for variable in self.anatomy.written]

    def finish(self, gradients: Sequence[Any], sums: Sums, snapshot: Sequence[Any], window: Any) -> UpdateResult:
        """Ends a window: unscale once, one finite check, apply or put everything back, move the scale.

        Args:
            gradients: accumulated, one per variable; None where a variable has none.
            sums: of the whole window.
            snapshot: what ``snapshot`` returned before the window.
            window: real samples, int32 scalar.
        """
        settled = self.settle(gradients, sums)

        def apply() -> Any:
            self.apply(settled)
            return self.applied.assign_add(1)

        def skip() -> Any:
            self.put_back(snapshot)
            return self.skipped.assign_add(1)

        tf.cond(settled.finite, apply, skip)
        return self.report(settled, sums, window)

    def settle(self, gradients: Sequence[Any], sums: Sums) -> Settled:
        """The mean's gradients of a whole window, unscaled once, and whether they are finite."""
        present = [index for index, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            raise ValueError(
                "no trainable variable receives a gradient; the loss does not depend on the model's variables"
            )
        dense = [densify(gradients[index]) for index in present]
        if self.needs_unscaling:
            factor = tf.math.divide_no_nan(sums.reference, sums.weight) / self.scale.current()
            dense = [gradient * factor for gradient in dense]
        squared = squared_norm(dense)
        return Settled([self.variables[index] for index in present], dense, squared, all_finite(dense, squared))

    def apply(self, settled: Settled) -> None:
        """One optimizer step."""
        typed = [
            tf.cast(gradient, flavour.raw(variable).dtype)
            for gradient, variable in zip(settled.gradients, settled.variables, strict=True)
        ]
        flavour.apply_gradients(self.optimizer, typed, settled.variables)

    def put_back(self, snapshot: Sequence[Any]) -> None:
        """Restores what the forward passes of a skipped window may have spoilt."""
        for variable, old in zip(self.anatomy.written, snapshot, strict=True):
            variable.assign(old)

    def report(self, settled: Settled, sums: Sums, window: Any) -> UpdateResult:
        """Moves the loss scale and says what happened."""
        used = self.scale.current()
        self.scale.move(settled.finite)
        return UpdateResult(
            loss=tf.math.divide_no_nan(sums.loss, sums.weight) + sums.extra,
            applied=settled.finite,
            loss_scale=used,
            samples=window,
            grad_norm=tf.sqrt(settled.squared),
            metrics={name: tf.math.divide_no_nan(*pair) for name, pair in sums.metrics.items()},
        )
