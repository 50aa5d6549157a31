"""TensorFlow's own allocator: on a CPU (where the trial asked for the BFC allocator) as on a GPU."""

from __future__ import annotations

import tensorflow as tf


class TfAllocatorMeter:
    """Peak of the BFC allocator: the sum of the chunks in use, parameters and the user's data on the device included.

    Args:
        device: TensorFlow's short name, ``CPU:0`` or ``GPU:0``.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self.source = "tf_bfc_cpu" if device.startswith("CPU") else "tf_allocator_gpu"

    def start(self) -> None:
        """Sets the peak back to what is allocated now; starts the TensorFlow runtime."""
        tf.config.experimental.reset_memory_stats(self._device)

    def peak_bytes(self) -> int | None:
        """Returns the peak in bytes; None where this allocator keeps no count (``cuda_malloc_async``)."""
        try:
            peak = int(tf.config.experimental.get_memory_info(self._device)["peak"])
        except ValueError:
            return None
        return peak or None
