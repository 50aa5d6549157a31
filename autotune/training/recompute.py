"""Recompute: the blocks that a workload names run again in the backward pass instead of keeping their activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autotune.errors import UsageError


def wrap_blocks(model: Any, names: Sequence[str]) -> None:
    """Makes the named layers recompute.

    Args:
        model: the model.
        names: of its layers, wherever they are nested.

    Raises:
        UsageError: no name, an unknown one, or a block that cannot be recomputed faithfully, with the reason.
    """
    if not names:
        raise UsageError(
            "recompute was asked for, but the workload names no blocks; set Workload(recompute=('block_1', ...))"
        )
    layers = {layer.name: layer for layer in _all_layers(model)}
    for name in names:
        if name not in layers:
            raise UsageError(
                f"recompute names {name!r}, which is no layer of the model; it has {', '.join(sorted(layers)[:12])}"
            )
        _refuse(name, layers[name])
        _wrap(layers[name])


def _all_layers(model: Any) -> list[Any]:
    flatten = getattr(model, "_flatten_layers", None)
    return list(flatten(include_self=False)) if flatten else list(model.layers)


def _refuse(name: str, block: Any) -> None:
    for layer in [block, *_all_layers(block)] if hasattr(block, "_flatten_layers") else [block]:
        kinds = {base.__name__ for base in type(layer).__mro__}
        if "BatchNormalization" in kinds:
            raise UsageError(
                f"block {name!r} cannot be recomputed: its layer {layer.name!r} would update its statistics twice"
            )
        if getattr(layer, "rate", 0) and (kinds & {"Dropout", "BaseRandomLayer"} or hasattr(layer, "seed_generator")):
            raise UsageError(
                f"block {name!r} cannot be recomputed: its layer {layer.name!r} would draw another mask the second "
                "time, and gradients would be silently wrong"
            )


def _wrap(block: Any) -> None:
    original = block.call

    def call(*args: Any, **kwargs: Any) -> Any:
        return tf.recompute_grad(lambda *tensors: original(*tensors, **kwargs))(*args)

    block.call = call
