"""Trains for epochs: progress, metrics, validation, checkpoints; stops between two updates when asked to."""

from __future__ import annotations

import importlib
import math
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from autotune import __version__
from autotune.core.training_run import Began, EpochEnded, Event, Progress, RunRecord, TrainRequest
from autotune.core.tuned import Software
from autotune.core.workload import Workload
from autotune.errors import AutotuneError, UsageError
from autotune.training import AccumulationLoop
from autotune.worker.train_board import Board
from autotune.worker.train_folder import RunFolder
from autotune.worker.train_position import Position

_REPORT_EVERY_S = 0.5
WEIGHTS = "model.weights.h5"


class StoppedError(Exception):
    """The user asked to stop; what was trained is saved, as far as the message says."""


class Training:
    """One process's part of a training run.

    Args:
        workload: the user's.
        request: what to do.
        tell: hears every event.
        stop_requested: asked between updates.
    """

    def __init__(
        self,
        workload: Workload,
        request: TrainRequest,
        tell: Callable[[Event], None],
        stop_requested: Callable[[], bool],
    ) -> None:
        self._request = request
        self._tell = tell
        self._stop_requested = stop_requested
        self._loop = AccumulationLoop(replace(workload, dataset=_finite(workload.dataset)), request.run.settings())
        self._run = _completed(request.run, self._loop)
        self._at = Position()

    def run(self, in_folder: Callable[[Path], None]) -> tuple[str, ...]:
        """Trains to the last epoch.

        Args:
            in_folder: called with the folder once it is this run's.

        Returns:
            names of the files written.

        Raises:
            UsageError: the folder holds another run, or the data set no epoch.
            StoppedError: the user asked to; a checkpoint was saved where any training was done.
            AutotuneError: the run cannot go on: a whole epoch without an applied update, or a folder not writable.
        """
        if self._stop_requested():
            raise StoppedError("stopped before training began")
        self._folder = RunFolder(Path(self._request.folder))
        notes = self._folder.claim(self._run, resume=self._request.resume)
        in_folder(self._folder.path)
        self._go_to_latest()
        notes += self._loop.warnings
        self._tell(
            Began(epoch=self._at.epoch, updates=self._at.updates, updates_per_epoch=self._per_epoch(), notes=notes)
        )
        self._board = Board(self._folder.path / "tensorboard")
        self._saved_at = time.monotonic()
        while self._at.epoch < self._request.epochs:
            self._train_epoch()
            self._end_epoch(known=notes)
            if self._stop_requested() and self._at.epoch < self._request.epochs:
                raise StoppedError(f"stopped after epoch {self._at.epoch} of {self._request.epochs}")
        self._write_weights()
        return ("metrics.csv", "tensorboard", "checkpoints", WEIGHTS)

    def _per_epoch(self) -> int | None:
        size, settings = self._loop.dataset_size, self._loop.settings
        return None if size is None else -(-size // settings.global_batch)

    def _go_to_latest(self) -> None:
        found = self._folder.latest()
        if found is None:
            return
        state, saved = found
        if (saved["epoch"], saved["updates"]) > (self._request.epochs, 0):
            raise UsageError(
                f"{self._folder.path} has gone beyond {self._request.epochs} epochs already; --epochs counts all of "
                "them"
            )
        try:
            self._loop.restore(state)
        except ValueError as problem:
            raise UsageError(f"{problem}; name another --out for a new run") from problem
        self._at = Position(saved)
        self._folder.write_metrics(self._at.rows)

    def _train_epoch(self) -> None:
        at = self._at
        at.start_clock()
        reported, reported_samples = time.monotonic(), at.samples
        while (done := self._loop.step()) is not None:
            result, samples = done
            at.add(result, samples)
            if time.monotonic() - reported >= _REPORT_EVERY_S:
                loss = float(result.loss)  # waits for the device, so that the rate below is a real one
                now = time.monotonic()
                self._report(loss, (at.samples - reported_samples) / (now - reported))
                reported, reported_samples = now, at.samples
            if self._stop_requested():
                self._save()
                raise StoppedError(f"stopped after update {at.updates} of epoch {at.epoch + 1}")
            if time.monotonic() - self._saved_at >= self._request.checkpoint_every_s:
                self._save()
        if not at.updates:
            raise UsageError("dataset() is empty; an epoch needs at least one sample")
        self._loop.synchronize()
        at.count_time()

    def _report(self, loss: float, rate: float) -> None:
        finite = loss if math.isfinite(loss) else None
        self._tell(Progress(epoch=self._at.epoch + 1, updates=self._at.updates, loss=finite, samples_per_s=rate))
        self._board.write(self._total_updates(), {"update/loss": loss, "update/samples_per_s": rate})

    def _total_updates(self) -> int:
        return self._loop.updates_applied + self._loop.updates_skipped

    def _end_epoch(self, *, known: tuple[str, ...]) -> None:
        row = self._row()
        self._at.end_epoch(row, applied=self._loop.updates_applied, skipped=self._loop.updates_skipped)
        self._save()
        self._folder.write_metrics(self._at.rows)
        self._board.write(row["updates_total"], {f"epoch/{k}": v for k, v in row.items() if k != "epoch"})
        self._board.flush()
        numbers = {name: value if math.isfinite(value) else None for name, value in row.items()}
        notes = tuple(sentence for sentence in self._loop.warnings if sentence not in known)
        self._tell(EpochEnded(epoch=self._at.epoch, numbers=numbers, notes=notes))

    def _row(self) -> dict[str, Any]:
        """Numbers of the epoch that has just been trained, validation included; what is not known is left out."""
        at, loop = self._at, self._loop
        applied, skipped = loop.updates_applied - at.applied, loop.updates_skipped - at.skipped
        if not applied and self._is_hopeless():
            raise AutotuneError(
                f"no update of epoch {at.epoch + 1} was applied: its gradients were not finite; lower the learning "
                "rate, or look for an overflow in the model"
            )
        row: dict[str, Any] = {"epoch": at.epoch + 1, "loss": None, **at.tally.means()}
        row |= {f"val_{name}": value for name, value in (loop.evaluate() or {}).items()}
        row |= {"updates_applied": applied, "updates_skipped": skipped, "updates_total": self._total_updates()}
        row |= {"learning_rate": _learning_rate(loop.optimizer)}
        row |= {"loss_scale": loop.loss_scale_value if loop.settings.precision == "mixed_float16" else None}
        row |= {"samples_per_s": at.samples / at.train_s, "train_s": at.train_s}
        return {name: value for name, value in row.items() if value is not None}

    def _is_hopeless(self) -> bool:
        """Whether updates that are not finite will stay so: there is no loss scale that could still come down."""
        settings = self._loop.settings
        return settings.precision != "mixed_float16" or self._loop.loss_scale_value <= settings.loss_scale.minimum

    def _save(self) -> None:
        self._at.count_time()
        position = {"seed": self._run.seed, **self._at.saved()}
        self._folder.save(self._at.epoch, self._at.updates, self._loop.save, position)
        self._at.start_clock()
        self._saved_at = time.monotonic()

    def _write_weights(self) -> None:
        model, optimizer = self._loop.model, self._loop.optimizer
        if getattr(optimizer, "use_ema", False):  # after the last checkpoint, from which training could go on
            optimizer.finalize_variable_values(model.trainable_variables)
        beside = self._folder.path / f".part.{WEIGHTS}"
        model.save_weights(str(beside))
        beside.replace(self._folder.path / WEIGHTS)


def _finite(dataset: Callable[[], Any]) -> Callable[[], Any]:
    """Refuses a data set that repeats for ever, in which no epoch ends."""

    def checked() -> Any:
        made = dataset()
        if isinstance(made, tf.data.Dataset) and int(made.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise UsageError("dataset() never ends; return one epoch of samples, without repeat()")
        return made

    return checked


def _completed(run: RunRecord, loop: AccumulationLoop) -> RunRecord:
    """Adds what only this process knows."""
    keras = importlib.import_module("tf_keras" if type(loop.model).__module__.startswith("tf_keras") else "keras")
    software = Software(
        autotune=__version__,
        python=platform.python_version(),
        tensorflow=tf.__version__,
        keras=keras.__version__,
    )
    return replace(run, workload=replace(run.workload, dataset_size=loop.dataset_size), software=software)


def _learning_rate(optimizer: Any) -> float | None:
    rate = getattr(optimizer, "learning_rate", None)
    if callable(rate):  # legacy Keras hands out the schedule itself
        rate = rate(optimizer.iterations)
    try:
        return float(np.asarray(rate))
    except (TypeError, ValueError):  # an optimizer with no single rate
        return None
