"""The user's workload under autotune's own loop."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from autotune.core.peaks import FIRST_WINDOW, WINDOW
from autotune.core.trial import PassKind, TrialSpec
from autotune.core.workload import Workload
from autotune.training import AccumulationLoop
from autotune.worker.asked import check_effective
from autotune.worker.conduct import SpanOf
from autotune.worker.failures import NotAsAskedError
from autotune.worker.loops import Loop, Update, read
from autotune.worker.timing import give_up_if_hopeless

_ENOUGH_STEPS = 2  # the first micro-batch, and one that is added to it
_ESTIMATE_IS_HIGH = 2.0
_FAR = 2.0
_LOOKS = 3


class WorkloadSubject:
    """An :class:`AccumulationLoop` over a workload.

    Args:
        workload: the user's.
        spec: the trial.
    """

    def __init__(self, workload: Workload, spec: TrialSpec) -> None:
        self._workload = workload
        self._candidate = spec.candidate
        self._seed = spec.seed
        self.input_bytes: int | None = None

    def build(self, kind: PassKind) -> Loop:
        """Builds the loop; a memory pass runs on windows made beforehand, so that no pipeline blurs its peak."""
        workload = self._workload
        if kind == "memory":
            workload = replace(workload, dataset=self._counting_bytes(workload.dataset))
        self._loop = AccumulationLoop(
            workload,
            self._candidate.settings(seed=self._seed),
            input_mode="resident" if kind == "memory" else "stream",
        )
        size = self._loop.dataset_size
        if size is not None and size < self._candidate.global_batch:
            raise NotAsAskedError(
                f"the data set has {size} samples, fewer than the global batch of {self._candidate.global_batch}"
            )
        return self._loop

    def _counting_bytes(self, dataset: Callable[[], Any]) -> Callable[[], Any]:
        def counted() -> Any:
            before = tf.config.experimental.get_memory_info("CPU:0")["current"]
            made = dataset()
            self.input_bytes = int(tf.config.experimental.get_memory_info("CPU:0")["current"] - before)
            return made

        return counted

    def exercise(
        self, windows: int, give_up_update_s: float | None, span: SpanOf, peak: Callable[[], int | None]
    ) -> list[Update]:
        """Runs full windows, the tail window of an epoch, evaluates, and saves a checkpoint."""
        self._look_ahead(give_up_update_s)
        batch, size = self._candidate.global_batch, self._loop.dataset_size
        self._full = self._loop.prepare_window(batch)
        with span(FIRST_WINDOW):
            results = [self._loop.update(self._full)]
        for _ in range(windows - 1):
            with span(WINDOW):
                results.append(self._loop.update(self._full))
        if size is not None and size % batch:
            tail = self._loop.prepare_window(size % batch)
            with span("tail window"):
                results.append(self._loop.update(tail))
        self._evaluate(span, peak)
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder, span("checkpoint"):
            self._loop.save(Path(folder) / "checkpoint")
        return [read(result) for result in results]

    def again(self) -> Callable[[], object]:
        """Prepares one more window, a short one where any two micro-batches need as much as all of them."""
        steps = self._candidate.accumulation_steps
        window = self._full
        if self._candidate.execution != "unrolled" and steps > _ENOUGH_STEPS:
            window = self._loop.prepare_window(_ENOUGH_STEPS * self._candidate.micro_batch * self._candidate.replicas)
        return lambda: self._loop.update(window)

    def _evaluate(self, span: SpanOf, peak: Callable[[], int | None]) -> None:
        """Evaluates, once more where that seems to need the most: the least of the repeats is what it needs."""
        if self._workload.evaluate is None:
            return
        before = peak()
        for _ in range(2):
            with span("evaluation"):
                self._loop.evaluate()
            if peak() == before:
                return

    def _look_ahead(self, give_up_update_s: float | None) -> None:
        """Judges an update by one of its micro-batches: some programs are tens of times slower than others."""
        steps = self._candidate.accumulation_steps
        if give_up_update_s is None or steps == 1:
            return
        window = self._loop.prepare_window(self._candidate.micro_batch * self._candidate.replicas)
        # Each look contains an optimizer step, so that an update comes out too long, but not by tens of times.
        limit_s = _ESTIMATE_IS_HIGH * give_up_update_s
        shortest = math.inf
        for look in range(1 + _LOOKS):
            self._loop.synchronize()
            started = time.perf_counter()
            self._loop.update(window)
            self._loop.synchronize()
            if look:  # the first call traces and compiles
                shortest = min(shortest, steps * (time.perf_counter() - started))
            if shortest <= limit_s:
                return
            if look and shortest > _FAR * limit_s:
                break
        give_up_if_hopeless(shortest, limit_s)

    def effective(self) -> tuple[dict[str, str], list[str]]:
        """Checks the loop's own report of what it compiled."""
        effective = {name: value for name, value in self._loop.effective().items() if value}
        check_effective(self._candidate, effective)
        if self._loop.shape_note:
            effective["shape"] = self._loop.shape_note
        return effective, list(self._loop.warnings)
