"""Ctrl-C, counted: the first ends in order, the second at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def counted_interrupts(first: str) -> Iterator[list[int]]:
    """Counts Ctrl-C and SIGTERM while a block runs; whoever runs looks at the count.

    The handler does not raise: an exception raised from it could land in the middle of anything. The third signal does
    raise, for the case that nobody looks.

    Args:
        first: what the first one is answered with, on stderr.

    Yields:
        The signals received so far; the list grows.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 2:
            raise KeyboardInterrupt("stopped at once")
        # os.write: a signal may arrive in the middle of a print.
        os.write(2, f"\nautotune: {'ending now' if len(received) == 2 else first}\n".encode())

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
