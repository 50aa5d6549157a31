"""The loop's whole state as one ``tf.train.Checkpoint``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autotune.training import flavour
from autotune.training.engine import Engine
from autotune.training.windows import Windows


class Position(tf.train.experimental.PythonState):
    """Where the loop stands in its data.

    Args:
        windows: the stream.
        renew: makes the data set again, as it was at the beginning.
    """

    def __init__(self, windows: Windows, renew: Callable[[], Any]) -> None:
        self._windows = windows
        self._renew = renew

    def serialize(self) -> str:
        """The position as JSON."""
        return json.dumps({"epoch": self._windows.epoch, "taken": self._windows.taken})

    def deserialize(self, string_value: bytes) -> None:
        """Brings the stream to a saved position."""
        position = json.loads(string_value)
        self._windows.seek(self._renew(), position["epoch"], position["taken"])


def checkpoint(engine: Engine, position: Position) -> tf.train.Checkpoint:
    """Weights, optimizer, random state, loss scale, counters and the position in the data.

    Variables are kept as lists in the model's and the optimizer's own order: Keras's own tracking leaves out the state
    of random generators.

    Args:
        engine: the model's update.
        position: in the data.
    """
    variables = [flavour.raw(variable) for variable in engine.model.variables]
    optimizer = [flavour.raw(variable) for variable in flavour.optimizer_variables(engine.optimizer)]
    known = {handle for variable in (*variables, *optimizer) for handle in _handles(variable)}
    elsewhere = [variable for variable in engine.anatomy.reached if not _handles(variable) & known]
    content: dict[str, Any] = {
        "model": variables,
        "optimizer": optimizer,
        "elsewhere": elsewhere,  # Keras's global random generator, and variables that belong to no layer
        "loss_scale": engine.scale,
        "applied": engine.applied,
        "skipped": engine.skipped,
        "position": position,
    }
    return tf.train.Checkpoint(**content)


def _handles(variable: Any) -> set[int]:
    """What a variable is stored in: the same for a wrapper and what it wraps, one for each replica."""
    parts = variable.values if isinstance(variable, tf.distribute.DistributedValues) else [variable]
    return {id(part.handle) for part in parts}
