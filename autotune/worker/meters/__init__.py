"""Memory meters that live inside the trial process, one file each."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Measures the highest memory in use between :meth:`start` and :meth:`peak_bytes`."""

    source: str

    def start(self) -> None:
        """Begins: after the user's code is loaded, before anything is built."""

    def peak_bytes(self) -> int | None:
        """Returns the peak so far in bytes; None where it cannot be read."""
