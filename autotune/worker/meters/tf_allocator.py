"""TensorFlow's own allocator: on a CPU (where the trial asked for the BFC allocator) as on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from autotune.core.peaks import REORDERED, Span, order_peaks, settled_peak
from autotune.worker import runtime
from autotune.worker.meters.holes import Holes

_ROOM = 2.5  # times what a span takes: twice, and what the span before has moved up


class TfAllocatorMeter:
    """Peak of the BFC allocator: the sum of the chunks in use, parameters and the user's data on the device included.

    Args:
        device: TensorFlow's short name, ``CPU:0`` or ``GPU:0``.
        holes: fills the gaps of the allocator's region before every span; None leaves them as they are.
        reorder: has TensorFlow prepare every graph anew before the first :data:`REORDERED` span of a name. Ops that may
            run in either order are put in one by chance (of addresses) when a graph is prepared, and peaks of equal
            graphs were seen to differ by 23 % for it.
    """

    def __init__(self, device: str, holes: Holes | None = None, *, reorder: bool = False) -> None:
        self._reorder = reorder
        self._device = device
        self._holes = holes
        self._spans: list[Span] = []
        self.source = "tf_bfc_cpu" if device.startswith("CPU") else "tf_allocator_gpu"

    def start(self) -> None:
        """Sets the peak back to what is allocated now; starts the TensorFlow runtime."""
        tf.config.experimental.reset_memory_stats(self._device)

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Covers one stretch; see :class:`autotune.core.peaks.Span`."""
        if self._reorder and name.startswith(REORDERED) and all(s.name != name for s in self._spans):
            runtime.prepare_graphs_anew(len(self._spans))
        filled = self._holes.fill(self._largest_need(), self._high_water()) if self._holes else 0
        tf.config.experimental.reset_memory_stats(self._device)
        before = self._read("current")
        try:
            yield
        finally:
            peak, after = self._read("peak"), self._read("current")
            self._spans.append(Span(name=name, before=before - filled, peak=peak - filled, after=after - filled))
            if self._holes:
                self._holes.release()

    def has_room(self) -> bool:
        """Tells whether another span can be trusted: a free chunk below twice a request is counted whole."""
        return self._holes is None or self._holes.room() >= _ROOM * self._largest_need()

    def order_peaks(self) -> tuple[int, ...]:
        """See :func:`autotune.core.peaks.order_peaks`."""
        return order_peaks(self._spans)

    def peak_bytes(self) -> int | None:
        """Returns the peak in bytes; None where this allocator keeps no count (``cuda_malloc_async``)."""
        return settled_peak(self._spans) or None

    def _largest_need(self) -> int:
        return max((s.peak - s.before for s in self._spans), default=0)

    def _high_water(self) -> int:
        return max((s.peak for s in self._spans), default=0)

    def _read(self, what: str) -> int:
        try:
            return int(tf.config.experimental.get_memory_info(self._device)[what])
        except ValueError:
            return 0
