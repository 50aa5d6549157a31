"""What the user writes, and how a trial finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model to train, as functions, so that every trial builds its own in its own process.

    Attributes:
        model: () -> keras.Model, built under the precision's dtype policy.
        optimizer: () -> keras.optimizers.Optimizer, without accumulation or loss scaling of its own.
        loss: (model, batch) -> per-sample or per-token losses, or ``(losses, weights)`` of the same shape, not reduced.
            A third element, a mapping of name to per-sample values, is reported as auxiliary metrics.
        dataset: () -> tf.data.Dataset of single samples, unbatched (any nested structure).
        evaluate: (model) -> mapping of metric name to value, or None.
        longest: () -> one worst-case batch's single sample (the longest), in the structure of ``dataset``. Under XLA,
            where lengths are padded to buckets, none is padded beyond it, dimension by dimension: give it where the
            model holds only so many.
        extra_loss: (model) -> scalar added once per update (on top of the model's own regularisers and ``add_loss``).
        recompute: names of the model's blocks (layers) that may be recomputed in the backward pass.
        pad: variable-length data: the value that pads each component to the longest sample of a batch (0 by default).
    """

    model: Callable[[], Any]
    optimizer: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    dataset: Callable[[], Any]
    evaluate: Callable[[Any], Any] | None = None
    longest: Callable[[], Any] | None = None
    extra_loss: Callable[[Any], Any] | None = None
    recompute: tuple[str, ...] = ()
    pad: Any = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRef:
    """Where a trial process finds the user's code.

    Attributes:
        path: absolute path of the Python file (a built-in workload is a file as well).
        attribute: name in that file; None looks for ``workload``, then ``make_loop``.
        display: what the user typed, shown and recorded (``digits``, ``train.py:other``).
        builtin: True for a workload that ships with autotune.
    """

    path: str
    attribute: str | None = None
    display: str
    builtin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadInfo:
    """What loading the user's code once has shown (the answer of an ``inspect`` job).

    Attributes:
        kind: ``workload`` (our loop over the user's model) or ``make_loop`` (the user's own loop).
        attribute: the name that was found.
        axes: names of the axes this workload offers beside ``micro_batch``.
        dataset_size: samples in the data set; None where it cannot be known without reading it all.
        source_hash: SHA-256 of the user's file, hexadecimal.
        frameworks: which of ``tensorflow``, ``keras``, ``torch``, ``jax`` the user's code had loaded.
        import_environment: variables read at import that the user's file sets (``KERAS_BACKEND``,
            ``TF_USE_LEGACY_KERAS``); a warm parent without them cannot serve this file.
        shape_note: which sample shape was used for sizing (the longest), for people.
        warnings: sentences to show once.
    """

    kind: str
    attribute: str
    axes: tuple[str, ...] = ()
    dataset_size: int | None = None
    source_hash: str
    frameworks: tuple[str, ...] = ()
    import_environment: tuple[str, ...] = ()
    shape_note: str | None = None
    warnings: tuple[str, ...] = ()
