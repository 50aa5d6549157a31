"""The training loop that people import and the tuner drives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.core.workload import Workload
from autotune.errors import UsageError
from autotune.training import effective, executions, flavour, parts
from autotune.training.checkpoint import Position, checkpoint
from autotune.training.checks import construction_warnings, correct_batch_norm
from autotune.training.distribution import Replicated, choose_strategy
from autotune.training.engine import Engine
from autotune.training.loss_scale import LossScale
from autotune.training.recompute import wrap_blocks
from autotune.training.result import UpdateResult
from autotune.training.windows import Window, Windows


class AccumulationLoop:
    """A mixed-precision training loop with gradient accumulation.

    Splitting the global batch changes nothing but memory and time: every update is the update of the whole global batch
    in one step, up to the rounding of the precision.

    Args:
        workload: functions that build the model and its kin, or :class:`autotune.training.Parts` that exist.
        settings: the loop's settings, as ``tuned.toml`` holds them.
        input_mode: ``stream`` reads the data set; ``resident`` repeats one prepared full window, to measure without
            input.
        batch_norm: ``corrected`` raises the momentum of every BatchNormalization layer to the power of 1 / accumulation
            steps, so that its running statistics move per update as they would for the full batch.
        strategy: a ``tf.distribute`` MirroredStrategy or MultiWorkerMirroredStrategy of ``settings.replicas`` replicas;
            None makes a MirroredStrategy where the settings ask for several. Every worker reads the same data set.

    Attributes:
        model: the model.
        optimizer: the optimizer, unwrapped.
        settings: as given.
        dataset_size: samples of the data set; None where it does not say.
        shape_note: which sample shape prepared windows have, where samples differ; else None.

    Raises:
        ValueError: a mistake in the workload's functions, with the mend.
        UsageError: a workload that cannot be trained with these settings, with the mend.
    """

    def __init__(
        self,
        workload: Workload | parts.Parts,
        settings: TrainSettings,
        *,
        input_mode: Literal["stream", "resident"] = "stream",
        batch_norm: Literal["as_is", "corrected"] = "as_is",
        strategy: Any = None,
    ) -> None:
        workload = parts.as_workload(workload)
        self.settings = settings
        self._workload = workload
        self._input_mode = input_mode
        self._resident: Window | None = None
        self.shape_note: str | None = None
        dataset = self._dataset()
        self._windows = Windows(
            dataset,
            samples=settings.global_batch,
            rows=None if settings.replicas > 1 else executions.padded_rows(settings),
            drop_tail=settings.tail == "drop",
            pad=workload.pad,
            bucketed=settings.jit_compile,
            longest=workload.longest,
        )
        size = int(dataset.cardinality())
        self.dataset_size = size if size >= 0 else None
        parts.check_reachable(settings, self.dataset_size)
        self._strategy = choose_strategy(settings, strategy)
        scope = self._strategy.scope() if self._strategy else contextlib.nullcontext()
        with flavour.policy_scope(settings.precision), scope:
            self.model = workload.model()
            if batch_norm == "corrected":
                correct_batch_norm(self.model, settings.accumulation_steps)
            if settings.recompute:
                wrap_blocks(self.model, workload.recompute)
            anatomy = parts.examine(workload, self.model, self._windows.batch_spec)
            self.optimizer, notes = parts.build_optimizer(workload)
            flavour.build_optimizer(self.optimizer, self.model.trainable_variables)
            self._scale = LossScale(
                settings.loss_scale, settings.initial_loss_scale, enabled=parts.uses_float16(self.model)
            )
            self._engine = Engine(workload, self.model, self.optimizer, anatomy, self._scale)
            self._execution = (
                Replicated(self._engine, settings, self._windows.batch_spec, self._strategy)
                if self._strategy
                else executions.build(self._engine, settings, self._windows.batch_spec)
            )
            self._generator = flavour.random_generator()
        self._warnings = (*notes, *construction_warnings(self.model, anatomy, settings))
        if batch_norm == "corrected":
            self._warnings = tuple(sentence for sentence in self._warnings if "running statistics" not in sentence)
        if input_mode == "stream":
            parts.check_labels(anatomy, self._windows.peek().batch)
        self._last: UpdateResult | None = None
        self._shapes: set[tuple[Any, ...]] = set()
        self._state: tf.train.Checkpoint | None = None

    def _dataset(self) -> Any:
        flavour.seed_everything(self.settings.seed)
        return self._workload.dataset()

    def _renewed_dataset(self) -> Any:
        with flavour.random_scope(self._generator):
            return self._dataset()

    def update(self, window: Window | None = None) -> UpdateResult:
        """Runs one optimizer update over one global batch. Does not wait for the device.

        Args:
            window: from ``prepare_window``; None takes the data set's next one, over epochs without end.

        Returns:
            The outcome, as tensors.
        """
        if window is None:
            window = self._next_window()
        if self.settings.jit_compile and self._windows.ragged:
            self._shapes.add(tuple(tuple(tensor.shape) for tensor in tf.nest.flatten(window.batch)))
        with flavour.policy_scope(self.settings.precision), flavour.random_scope(self._generator):  # it may trace
            self._last = self._execution.update(window)
        return self._last

    def step(self) -> tuple[UpdateResult, int] | None:
        """Runs one update of the present epoch; for those who write the loop over an epoch themselves.

        Returns:
            the outcome and the samples it had; None where the epoch ended instead: the next call begins another.
        """
        window = self._windows.take()
        return (self.update(window), window.samples) if window.samples else None

    def _next_window(self) -> Window:
        if self._input_mode == "resident":
            if self._resident is None:
                self._resident = self.prepare_window(self.settings.global_batch)
            return self._resident
        window = self._windows.take()
        if not window.samples:  # an epoch ended here
            window = self._windows.take()
            if not window.samples:
                raise UsageError(
                    "an epoch of the data set holds no window; it is empty, or smaller than a global batch with "
                    "tail='drop'"
                )
        return window

    def prepare_window(self, samples: int) -> Window:
        """A window that stays in memory: of the longest samples where lengths differ, else of the first ones.

        Args:
            samples: real samples, from 1 to the global batch.

        Raises:
            ValueError: ``samples`` out of range.
        """
        if not 1 <= samples <= self.settings.global_batch:
            raise ValueError(f"a window holds 1 to {self.settings.global_batch} samples, not {samples}")
        window, self.shape_note = self._windows.prepare(samples)
        return window

    def fit(
        self, epochs: int, *, after_epoch: Callable[[int, dict[str, float]], None] | None = None
    ) -> list[dict[str, float]]:
        """Trains for whole epochs, from where the data are.

        Args:
            epochs: how many times to go to the data set's end.
            after_epoch: called with (epochs done in this call, that epoch's numbers), for checkpoints and reports.

        Returns:
            For each epoch: ``loss`` and the auxiliary metrics (means over the samples of applied updates; NaN where
            none was applied), ``samples``, ``updates_applied``, ``updates_skipped``, and what ``evaluate`` gave, each
            name with ``val_`` before it.
        """
        history = []
        for epoch in range(epochs):
            history.append(self._epoch())
            history[-1].update({f"val_{name}": value for name, value in (self.evaluate() or {}).items()})
            if after_epoch is not None:
                after_epoch(epoch + 1, history[-1])
        if getattr(self.optimizer, "use_ema", False):
            self.optimizer.finalize_variable_values(self.model.trainable_variables)
        return history

    def _epoch(self) -> dict[str, float]:
        totals: dict[str, Any] = {}
        counted: Any = 0.0
        samples = 0
        applied, skipped = self.updates_applied, self.updates_skipped
        while (done := self.step()) is not None:
            result, size = done
            samples += size
            weight = tf.where(result.applied, float(size), 0.0)
            counted += weight
            for name, value in {"loss": result.loss, **result.metrics}.items():
                totals[name] = totals.get(name, 0.0) + tf.math.multiply_no_nan(value, weight)
        numbers = {name: float(total / counted) for name, total in totals.items()}
        numbers["samples"] = samples
        numbers["updates_applied"] = self.updates_applied - applied
        numbers["updates_skipped"] = self.updates_skipped - skipped
        return numbers

    def evaluate(self) -> dict[str, float] | None:
        """What the workload's ``evaluate`` says of the model; None where it has none."""
        if self._workload.evaluate is None:
            return None
        values = self._workload.evaluate(self.model)
        return None if values is None else {name: float(value) for name, value in values.items()}

    def synchronize(self) -> None:
        """Returns once the device has done all that was asked of it."""
        if self._last is not None:
            self._last.loss.numpy()
            self._engine.applied.numpy()
        tf.test.experimental.sync_devices()

    def effective(self) -> dict[str, str]:
        """What really ran, after at least one update.

        Returns:
            ``precision``, ``layers_that_differ`` (``name (dtype), ...``), ``jit_compile`` (``true`` or ``false``) and
            ``execution`` (``single`` where one micro-batch is the whole update).
        """
        return effective.describe(self.settings, self.model, self._execution)

    @property
    def traced_functions(self) -> tuple[Any, ...]:
        """The ``tf.function`` objects of a full update, to look at traces and compiled programs."""
        return self._execution.functions

    @property
    def update_function(self) -> Any:
        """The ``tf.function`` that ends an update, whose graph holds the optimizer and any reduction over replicas."""
        return self._execution.last_function

    @property
    def input_wait_s(self) -> float:
        """Seconds that the host has waited for the data set, in all."""
        return self._windows.wait_s

    @property
    def shapes_compiled(self) -> int:
        """How many shapes of window XLA had to compile for so far, where lengths vary; 0 where they do not."""
        return len(self._shapes)

    @property
    def updates_applied(self) -> int:
        """Updates applied since the loop was made or restored. Waits for the device."""
        return int(self._engine.applied.numpy())

    @property
    def updates_skipped(self) -> int:
        """Updates skipped for gradients that were not finite. Waits for the device."""
        return int(self._engine.skipped.numpy())

    @property
    def loss_scale_value(self) -> float:
        """The loss scale that the next update will use; 1 where nothing is scaled. Waits for the device."""
        return float(self._scale.current().numpy())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that the user should read, the present state of the loss scale included."""
        if not self._scale.on_floor():
            return self._warnings
        floor = self.settings.loss_scale.minimum
        return (
            *self._warnings,
            f"the loss scale sits on its floor of {floor:g} and {self.updates_skipped} updates were skipped: gradients "
            "are not finite at any scale; look for an overflow in the forward pass or use mixed_bfloat16",
        )

    @property
    def state(self) -> tf.train.Checkpoint:
        """The loop's whole state, for a ``tf.train.CheckpointManager``."""
        if self._state is None:
            self._state = checkpoint(self._engine, Position(self._windows, self._renewed_dataset))
        return self._state

    def save(self, path: str | Path) -> str:
        """Writes the whole state; returns the path to give to ``restore``."""
        return self.state.write(str(path))

    def restore(self, path: str | Path) -> None:
        """Reads the whole state back: training goes on as if it had not stopped.

        Args:
            path: what ``save`` returned.

        Raises:
            UsageError: there is no such state.
            ValueError: the state belongs to another model, optimizer or precision.
        """
        try:
            self.state.read(str(path)).assert_consumed()
        except tf.errors.NotFoundError:
            raise UsageError(f"{path} holds no saved training state") from None
        except (AssertionError, ValueError) as error:
            raise ValueError(f"{path} holds the state of another model, optimizer or precision: {error}") from error
