"""Fills the gaps between live buffers in the CPU allocator's region, so that every span starts from whole free memory.

The allocator hands out a free chunk whole unless it is at least twice as large as the request, and counts all of it.
Where long-lived buffers have come to lie differs from run to run, and with it the gaps, and with them the peak (up to
14 % were seen). With the gaps filled, requests are cut to size from the one large chunk that is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_SMALLEST = 256  # the allocator's own unit
_STEP = 1.9  # below 2, so that a gap is taken whole by the first request that fits it
_SPREAD = 1.3  # buffers lie further apart than their sum says


class Holes:
    """The gaps of one region.

    Args:
        region_bytes: size of the region that was taken first.
    """

    def __init__(self, region_bytes: int) -> None:
        self._region = region_bytes
        self._fillers: list[Any] = []
        self._first_end: int | None = None
        self._used_first = 0
        self._drift = 0

    def fill(self, need: int, high_water: int) -> int:
        """Fills every gap below the first free chunk that holds ``need`` bytes.

        Args:
            need: most bytes that a span has taken so far; 0 before the first, when there are no gaps.
            high_water: most bytes in use at a time so far.

        Returns:
            bytes of the fillers; 0 where the region has no room to spare, and the gaps may be needed.
        """
        if need < _SMALLEST or _SPREAD * (high_water + need) > self._region:
            return 0
        try:
            return self._fill(need)
        except tf.errors.ResourceExhaustedError:  # an instrument must not be what runs out of memory
            self.release()
            self._region = 0
            return 0

    def _fill(self, need: int) -> int:
        before = _in_use()
        end = _address(_take(need))
        if self._first_end is None:
            self._first_end, self._used_first = end, before
        self._drift = end - self._first_end
        size = need
        while size >= _SMALLEST:
            filler = _take(size)
            if _address(filler) < end:
                self._fillers.append(filler)
            else:
                size = int(size / _STEP)
            del filler  # one that is not kept may hold all that is left: a chunk is not cut for half of it
        return _in_use() - before

    def room(self) -> int:
        """Bytes that lie free in one piece: less, where long-lived buffers have come to lie ever further up."""
        return self._region - self._used_first - self._drift

    def release(self) -> None:
        """Opens the gaps again."""
        self._fillers.clear()


def _take(size: int) -> Any:
    with tf.device("CPU:0"):
        return tf.raw_ops.Empty(shape=[size], dtype=tf.uint8)


def _address(tensor: Any) -> int:
    return np.frombuffer(memoryview(tensor), np.uint8).ctypes.data


def _in_use() -> int:
    return int(tf.config.experimental.get_memory_info("CPU:0")["current"])
