"""Recompute: the blocks that a workload names run again in the backward pass instead of keeping their activations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from autotune.errors import UsageError


def wrap_blocks(model: Any, names: Sequence[str]) -> None:
    """Makes the named layers recompute.

    Args:
        model: the model, changed in place.
        names: of its layers, wherever they are nested.

    Raises:
        UsageError: no name, an unknown one, or a block that cannot be recomputed faithfully, with the reason.
    """
    if not names:
        raise UsageError(
            "recompute was asked for, but the workload names no blocks; set Workload(recompute=('block_1', ...))"
        )
    layers = {layer.name: layer for layer in _inside(model)}
    for name in names:
        if name not in layers:
            known = ", ".join(list(layers)[:12])
            raise UsageError(f"recompute names {name!r}, which is no layer of the model; its layers are {known}")
        _wrap(layers[name], _random_generators(name, layers[name]))


def _inside(layer: Any) -> list[Any]:
    flatten = getattr(layer, "_flatten_layers", None)
    return list(flatten(include_self=False)) if flatten else []


def _random_generators(name: str, block: Any) -> list[Any]:
    """The block's Keras random generators, whose seeds are drawn outside of it.

    Raises:
        UsageError: the block has something else that would happen twice.
    """
    generators = []
    for layer in [block, *_inside(block)]:
        kinds = {base.__name__ for base in type(layer).__mro__}
        if "BatchNormalization" in kinds:
            raise UsageError(
                f"block {name!r} cannot be recomputed: its layer {layer.name!r} would update its statistics twice"
            )
        found = [value for value in vars(layer).values() if type(value).__name__ == "SeedGenerator"]
        if not found and ("BaseRandomLayer" in kinds or getattr(layer, "rate", None)):
            raise UsageError(
                f"block {name!r} cannot be recomputed: its layer {layer.name!r} would draw another mask the second "
                "time, and gradients would be silently wrong"
            )
        generators.extend(found)
    return generators


@contextlib.contextmanager
def _fixed(generators: Sequence[Any], seeds: Sequence[Any]) -> Iterator[None]:
    """Lets each generator hand out its seed, and others that follow from it, instead of moving its state."""
    for generator, seed in zip(generators, seeds, strict=True):
        draws = iter(range(1_000_000))

        def following(ordered: bool = True, seed: Any = seed, draws: Any = draws) -> Any:
            return seed + tf.cast(tf.stack([next(draws), 0]), seed.dtype)

        generator.next = following
    try:
        yield
    finally:
        for generator in generators:
            del generator.next


def _wrap(block: Any, generators: Sequence[Any]) -> None:
    original = block.call

    def call(*args: Any, **kwargs: Any) -> Any:
        # recompute_grad has no gradient for tensors that its function closes over: every tensor becomes an argument
        flat = tf.nest.flatten((args, kwargs))
        places = [place for place, value in enumerate(flat) if tf.is_tensor(value)]
        seeds = [generator.next() for generator in generators]

        def again(*tensors: Any) -> Any:
            values = list(flat)
            for place, tensor in zip(places, tensors, strict=False):
                values[place] = tensor
            positional, named = tf.nest.pack_sequence_as((args, kwargs), values)
            with _fixed(generators, tensors[len(places) :]):
                return original(*positional, **named)

        return tf.recompute_grad(again)(*(flat[place] for place in places), *seeds)

    block.call = call
