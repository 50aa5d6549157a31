"""Where a training run stands: counts, sums and rows, beside the loop's own state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from autotune.training import UpdateResult


class Tally:
    """Means over one epoch, weighted by the samples of applied updates. Kept on the device, in float64."""

    def __init__(self, saved: Mapping[str, float] | None = None) -> None:
        self._sums: dict[str, Any] = dict(saved or {})

    def add(self, result: UpdateResult, samples: int) -> None:
        """Adds an update; one that was skipped counts for nothing, since its loss may not be finite."""
        for name, value in {**result.metrics, "loss": result.loss, "": 1.0}.items():
            share = tf.where(result.applied, tf.cast(value, tf.float64) * samples, tf.zeros([], tf.float64))
            self._sums[name] = self._sums.get(name, 0.0) + share

    def saved(self) -> dict[str, float]:
        """The sums as numbers, exact."""
        return {name: float(value) for name, value in self._sums.items()}

    def means(self) -> dict[str, float]:
        """The means; empty where no update was applied."""
        sums = self.saved()
        samples = sums.pop("", 0.0)
        return {name: value / samples for name, value in sums.items()} if samples else {}


class Position:
    """Epochs done, and what has been gathered in the present one.

    Args:
        saved: what :meth:`saved` returned; None at the beginning.

    Attributes:
        epoch: epochs that are done.
        updates: updates done in the present epoch.
        samples: samples of these.
        train_s: seconds spent on these, over all parts of the run.
        applied, skipped: the loop's counters when the epoch began.
        tally: means of the present epoch.
        rows: rows of ``metrics.csv``.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        saved = saved or {}
        self.epoch: int = saved.get("epoch", 0)
        self.updates: int = saved.get("updates", 0)
        self.samples: int = saved.get("samples", 0)
        self.train_s: float = saved.get("train_s", 0.0)
        self.applied: int = saved.get("applied", 0)
        self.skipped: int = saved.get("skipped", 0)
        self.tally = Tally(saved.get("tally"))
        self.rows: list[dict[str, Any]] = saved.get("rows", [])
        self._clock = time.monotonic()

    def saved(self) -> dict[str, Any]:
        """All of it as JSON values."""
        names = ("epoch", "updates", "samples", "train_s", "applied", "skipped", "rows")
        return {name: getattr(self, name) for name in names} | {"tally": self.tally.saved()}

    def add(self, result: UpdateResult, samples: int) -> None:
        """Counts one update."""
        self.tally.add(result, samples)
        self.updates += 1
        self.samples += samples

    def start_clock(self) -> None:
        """Leaves out the time since the last count: it was not spent on training."""
        self._clock = time.monotonic()

    def count_time(self) -> None:
        """Adds the time since the last count."""
        now = time.monotonic()
        self.train_s += now - self._clock
        self._clock = now

    def end_epoch(self, row: Mapping[str, Any], *, applied: int, skipped: int) -> None:
        """Closes the present epoch.

        Args:
            row: of ``metrics.csv``.
            applied: the loop's counter.
            skipped: the loop's counter.
        """
        self.rows = [*self.rows, dict(row)]
        self.epoch, self.updates, self.samples, self.train_s = self.epoch + 1, 0, 0, 0.0
        self.applied, self.skipped, self.tally = applied, skipped, Tally()
        self.start_clock()
