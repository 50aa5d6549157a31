"""The two kinds of loop a trial can run, behind one face."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

_KEYS = ("loss", "applied", "loss_scale", "samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one update reported, on the host; None where it did not say.

    Attributes:
        loss: mean loss of the update.
        applied: False where it was skipped because its gradients were not finite.
        loss_scale: the scale it ran under.
        samples: samples in it.
    """

    loss: float | None = None
    applied: bool = True
    loss_scale: float | None = None
    samples: int | None = None

    @property
    def diverged(self) -> bool:
        """True where an applied update had a loss that is not finite."""
        return self.applied and self.loss is not None and not math.isfinite(self.loss)


class Loop(Protocol):
    """A loop under measurement."""

    def update(self) -> Any:
        """Runs one update and returns what :func:`read` understands, without waiting for the device."""

    def synchronize(self) -> None:
        """Waits until the device has done all that it was asked."""

    @property
    def input_wait_s(self) -> float | None:
        """Seconds spent waiting for input data so far; None where the loop cannot tell."""

    @property
    def shapes_compiled(self) -> int:
        """Shapes of data that a program was compiled for so far: an update that adds one is no measure of the rest."""


class OutOfDataError(Exception):
    """The loop ended before the updates that were asked for."""


class OwnLoop:
    """A loop of the user's own: anything with ``update()``."""

    input_wait_s = None
    shapes_compiled = 0  # not known of a foreign loop

    def __init__(self, loop: Any) -> None:
        if not callable(getattr(loop, "update", None)):
            raise TypeError(f"make_loop must return an object with update(), got a {type(loop).__name__}")
        self._update: Callable[[], Any] = loop.update
        self._done = 0

    def update(self) -> Any:
        """Runs one update.

        Raises:
            OutOfDataError: the loop's data ended.
        """
        try:
            result = self._update()
        except Exception as problem:
            if _is_end_of_data(problem):
                message = f"the loop ran out of data after {self._done} updates; let its data repeat"
                raise OutOfDataError(message) from problem
            raise
        self._done += 1
        return result

    def synchronize(self) -> None:
        """Waits for the devices of whichever frameworks are loaded."""
        if "tensorflow" in sys.modules:
            import tensorflow as tf

            tf.test.experimental.sync_devices()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        jax = sys.modules.get("jax")
        if jax is not None:
            for array in jax.live_arrays():
                array.block_until_ready()


class BadUpdateError(ValueError):
    """``update()`` of the user's loop returned something else than it may."""


def read(raw: Any) -> Update:
    """Brings what an update returned to the host, whichever framework its values are of.

    Raises:
        BadUpdateError: neither None, nor a mapping, nor a result of our own loop; or a value of the wrong kind.
    """
    if raw is None:
        return Update()
    if isinstance(raw, Mapping):
        given = {key: raw[key] for key in _KEYS if raw.get(key) is not None}
    elif all(hasattr(raw, key) for key in _KEYS):
        given = {key: getattr(raw, key) for key in _KEYS if getattr(raw, key) is not None}
    else:
        raise BadUpdateError(f"update() must return None or a mapping with any of {', '.join(_KEYS)}, got {raw!r:.80}")
    kinds: dict[str, Callable[[Any], Any]] = {"loss": float, "applied": bool, "loss_scale": float, "samples": int}
    values = {}
    for key, value in given.items():
        try:
            values[key] = kinds[key](value)
        except (TypeError, ValueError) as problem:
            raise BadUpdateError(
                f"update() returned {key}={value!r:.80}, which is no single number: {problem}"
            ) from problem
    return Update(**values)


def _is_end_of_data(problem: BaseException) -> bool:
    return isinstance(problem, StopIteration) or any(
        c.__name__ == "OutOfRangeError" and c.__module__.startswith("tensorflow.") for c in type(problem).__mro__
    )
