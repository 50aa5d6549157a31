"""Where the time of a pass goes, and where it was when it died."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from autotune.core.codec import to_plain
from autotune.core.passes import Progress


class Phases:
    """Seconds by phase name; the phase in progress is kept in a file, for the case that this process dies in it.

    Args:
        path: the progress file.
        clock: seconds, monotonic.
    """

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path = Path(path)
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Counts the time of a ``with`` block as phase ``name``; phases of one name add up."""
        self._note(name)
        started = self._clock()
        try:
            yield
        finally:
            self.add(name, self._clock() - started)

    def add(self, name: str, seconds: float) -> None:
        """Counts ``seconds`` as phase ``name``."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def _note(self, name: str) -> None:
        # Progress is a courtesy: a full disk must not turn it into the reason why a trial fails.
        with contextlib.suppress(OSError):
            self._path.write_text(json.dumps(to_plain(Progress(phase=name, phases=self.seconds))))
