"""Memory meters that live inside the trial process, one file each."""

from __future__ import annotations

import contextlib
from typing import Protocol


class Meter(Protocol):
    """Measures the highest memory in use since :meth:`start`."""

    source: str

    def start(self) -> None:
        """Begins: after the user's code is loaded, before anything is built."""

    def span(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Covers one stretch of what is measured; stretches of one name are repeats of the same."""

    def has_room(self) -> bool:
        """Tells whether one more span would be measured as well as those before."""

    def order_peaks(self) -> tuple[int, ...]:
        """Returns bytes that a window needed in each order so far, oldest first; empty where there is but one mark."""

    def peak_bytes(self) -> int | None:
        """Returns the peak so far in bytes; None where it cannot be read."""
