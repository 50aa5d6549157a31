"""Scalars for TensorBoard, written with TensorFlow alone: its own ``scalar`` needs the tensorboard package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

_SCALAR = 1  # DATA_CLASS_SCALAR of tensorflow/core/framework/summary.proto


class Board:
    """One event file in ``folder``; a resumed run adds another, which TensorBoard joins."""

    def __init__(self, folder: Path) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=_SCALAR,
        )

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes scalars.

        Args:
            step: updates done.
            values: by tag.
        """
        with self._writer.as_default():
            for tag, value in values.items():
                tf.summary.write(tag, tf.constant(value, tf.float32), step=step, metadata=self._metadata)

    def flush(self) -> None:
        """Has everything on disk."""
        self._writer.flush()
