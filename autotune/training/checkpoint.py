"""The loop's whole state as one ``tf.train.Checkpoint``."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autotune.training import flavour
from autotune.training.engine import Engine
from autotune.training.windows import Windows


def checkpoint(engine: Engine, windows: Windows | None) -> tf.train.Checkpoint:
    """Weights, optimizer, random state, loss scale, counters and the position in the data.

    Variables are kept as lists in the model's and the optimizer's own order: Keras's own tracking leaves out the state
    of random generators.

    Args:
        engine: the model's update.
        windows: the stream whose position is saved; None leaves the data out.
    """
    variables = [flavour.raw(variable) for variable in engine.model.variables]
    known = {id(variable) for variable in variables}
    optimizer = [flavour.raw(variable) for variable in flavour.optimizer_variables(engine.optimizer)]
    known.update(id(variable) for variable in optimizer)
    elsewhere = [variable for variable in engine.anatomy.reached if id(variable) not in known]
    content: dict[str, Any] = {
        "model": variables,
        "optimizer": optimizer,
        "elsewhere": elsewhere,  # Keras's global random generator, and variables that belong to no layer
        "loss_scale": engine.scale,
        "applied": engine.applied,
        "skipped": engine.skipped,
    }
    if windows is not None:
        content["data"] = windows.iterator
    return tf.train.Checkpoint(**content)
