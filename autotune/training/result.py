"""What one update returns, and the sums a window carries on the way there."""

from __future__ import annotations

from typing import Any, NamedTuple


class UpdateResult(NamedTuple):
    """The outcome of one update. Every field is a tensor: nothing has waited for the device yet.

    Attributes:
        loss: float32 scalar, unscaled: the weighted mean over the whole global batch plus regularisation.
        applied: bool scalar; False where the gradients were not finite and the update was skipped.
        loss_scale: float32 scalar, the scale this update was run with (1 where nothing is scaled).
        samples: int32 scalar, real samples of the window, padding excluded.
        grad_norm: float32 scalar, global norm of the accumulated, unscaled gradient before any clipping.
        metrics: the loss function's auxiliary values, averaged like the loss; float32 scalars.
    """

    loss: Any
    applied: Any
    loss_scale: Any
    samples: Any
    grad_norm: Any
    metrics: dict[str, Any]


class Sums(NamedTuple):
    """What a window's micro-batches add up to; float32 scalars. A structure that ``tf.while_loop`` carries.

    Attributes:
        loss: sum of losses times weights.
        weight: sum of weights.
        extra: regularisation and ``add_loss``, each micro-batch's share by its samples.
        reference: the divisor that the backward pass used (one value for all micro-batches of the window).
        metrics: name to (sum of values times weights, sum of weights).
    """

    loss: Any
    weight: Any
    extra: Any
    reference: Any
    metrics: dict[str, tuple[Any, Any]]

    def plus(self, other: Sums) -> Sums:
        """Adds another micro-batch's sums; the reference is the same for all of them, so the latest one stays."""
        return Sums(
            loss=self.loss + other.loss,
            weight=self.weight + other.weight,
            extra=self.extra + other.extra,
            reference=other.reference,
            metrics={
                name: (self.metrics[name][0] + other.metrics[name][0], self.metrics[name][1] + other.metrics[name][1])
                for name in self.metrics
            },
        )
