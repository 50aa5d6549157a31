"""Resident memory of the process, as the kernel counts it: works for every framework."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 64 * 1024


class HostMeter:
    """``VmHWM`` above what the process held when the meter was started.

    Not ``ru_maxrss``: that one inherits the peak of the parent, here a server with TensorFlow in it.
    """

    source = "host_vmhwm"

    def start(self) -> None:
        """Sets the kernel's high-water mark back to what is resident now."""
        with contextlib.suppress(OSError):  # a kernel without it keeps the mark, and the figure is an upper bound
            Path("/proc/self/clear_refs").write_text("5")
        self._baseline = _status_bytes("VmRSS")

    def span(self, name: str) -> contextlib.AbstractContextManager[None]:
        """The kernel's mark covers all of them at once."""
        return contextlib.nullcontext()

    def has_room(self) -> bool:
        """The kernel's mark is the same wherever buffers lie."""
        return True

    def order_peaks(self) -> tuple[int, ...]:
        """One mark for all."""
        return ()

    def peak_bytes(self) -> int | None:
        """Returns the peak above the baseline, in bytes."""
        peak = _status_bytes("VmHWM")
        return None if peak is None or self._baseline is None else max(0, peak - self._baseline)


def give_freed_memory_back() -> None:
    """Has glibc return freed memory at once, so that resident memory follows what is in use (it costs time).

    Set at run time, since glibc reads its environment variables only when a program starts.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _THRESHOLD_BYTES)


def _status_bytes(field: str) -> int | None:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None
