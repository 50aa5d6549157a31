"""The loss scale: counted per update, bounded on both sides, halved and grown on the device."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.core.settings import DEFAULT_LOSS_SCALE, LossScaleSettings


class LossScale(tf.Module):
    """A loss scale that lives on the device.

    Args:
        settings: how the scale moves.
        initial: first value; None takes 2**15.
        enabled: False for float32 and bfloat16: the scale is the constant 1 and costs nothing.

    Attributes:
        value: float32 variable, or None where nothing is scaled.
        good_updates: int32 variable, finite updates since the scale last moved.
    """

    def __init__(self, settings: LossScaleSettings, initial: float | None, *, enabled: bool) -> None:
        super().__init__(name="loss_scale")
        self._settings = settings
        self.enabled = enabled
        self.value = self.good_updates = None
        if enabled:
            start = min(max(initial or DEFAULT_LOSS_SCALE, settings.minimum), settings.maximum)
            self.value = tf.Variable(start, dtype=tf.float32, trainable=False, name="value")
            self.good_updates = tf.Variable(0, dtype=tf.int32, trainable=False, name="good_updates")

    def current(self) -> Any:
        """The scale as a float32 scalar tensor."""
        return tf.identity(self.value) if self.enabled else tf.constant(1.0)

    def move(self, finite: Any) -> None:
        """Grows or halves the scale after an update. Part of the update's graph.

        Args:
            finite: bool scalar, whether the whole window's gradients were.
        """
        if not (self.enabled and self._settings.dynamic):
            return
        value, settings = self.value, self._settings
        assert value is not None and self.good_updates is not None
        good = tf.where(finite, self.good_updates + 1, 0)
        grow = good >= settings.growth_interval
        grown = tf.minimum(value * settings.growth_factor, settings.maximum)
        shrunk = tf.maximum(value * settings.backoff_factor, settings.minimum)
        value.assign(tf.where(finite, tf.where(grow, grown, value), shrunk))
        self.good_updates.assign(tf.where(grow, 0, good))

    def on_floor(self) -> bool:
        """Whether a dynamic scale sits on its floor: then nothing is learnt. Waits for the device."""
        return bool(
            self.enabled and self._settings.dynamic and float(self.value.numpy()) <= self._settings.minimum  # type: ignore[union-attr]
        )
