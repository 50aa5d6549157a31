"""The two Kerases (Keras 3 and legacy ``tf_keras``) behind one set of small functions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf


def _loaded_kerases() -> list[Any]:
    """Every Keras this process uses: ``tf.keras`` (the environment decides which) and directly imported ones."""
    modules = [tf.keras]
    for name in ("keras", "tf_keras"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "mixed_precision"):
            modules.append(module)
    return modules


@contextlib.contextmanager
def policy_scope(precision: str) -> Iterator[None]:
    """Makes ``precision`` the process-wide dtype policy inside the block, and puts back what was there.

    Args:
        precision: name of a Keras dtype policy.
    """
    before = []
    try:
        for module in _loaded_kerases():
            mixed = module.mixed_precision
            if hasattr(mixed, "global_policy"):
                before.append((mixed.set_global_policy, mixed.global_policy()))
                mixed.set_global_policy(precision)
            else:
                before.append((mixed.set_dtype_policy, mixed.dtype_policy()))
                mixed.set_dtype_policy(precision)
        yield
    finally:
        for put_back, policy in reversed(before):
            put_back(policy)


_GENERATOR = "global_seed_generator"


def _keras3_state() -> Any:
    """Keras 3's process-wide state; None under legacy Keras alone, or where a version keeps it elsewhere."""
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return None
    return global_state


def random_generator() -> Any:
    """The process-wide generator that Keras 3's random functions use by default; None where there is none."""
    state = _keras3_state()
    return None if state is None else state.get_global_attribute(_GENERATOR)


@contextlib.contextmanager
def random_scope(generator: Any) -> Iterator[None]:
    """Makes ``generator`` the process-wide one inside the block: two loops in one process share no random numbers.

    Args:
        generator: from ``random_generator``; None changes nothing.
    """
    state = _keras3_state()
    if generator is None or state is None:
        yield
        return
    before = state.get_global_attribute(_GENERATOR)
    state.set_global_attribute(_GENERATOR, generator)
    try:
        yield
    finally:
        state.set_global_attribute(_GENERATOR, before)


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy and TensorFlow, which seed weights, ``Dataset.shuffle`` and dropout."""
    for module in _loaded_kerases():
        module.utils.set_random_seed(seed)


def raw(variable: Any) -> Any:
    """The ``tf.Variable`` of a Keras variable (Keras 3 wraps it, legacy Keras does not)."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def components(variable: Any) -> Sequence[Any]:
    """The variables that a ``tf.Variable`` consists of: one per replica where a strategy made it, else itself."""
    return variable.values if isinstance(variable, tf.distribute.DistributedValues) else (variable,)


def is_legacy(optimizer: Any) -> bool:
    """Whether an optimizer is legacy Keras's (its ``apply`` does not exist)."""
    return not hasattr(optimizer, "apply")


def build_optimizer(optimizer: Any, variables: Sequence[Any]) -> None:
    """Creates the optimizer's variables now, so that no trace has to."""
    if hasattr(optimizer, "build"):
        if not getattr(optimizer, "built", False) or is_legacy(optimizer):
            optimizer.build(list(variables))
    else:  # tf_keras.optimizers.legacy
        optimizer._create_all_weights(list(variables))


def apply_gradients(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
    """One optimizer step with gradients that are already summed over replicas, unscaled and dense."""
    if is_legacy(optimizer):
        try:
            optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)
        except TypeError:  # tf_keras.optimizers.legacy has another name for it
            optimizer.apply_gradients(zip(gradients, variables, strict=True), experimental_aggregate_gradients=False)
    else:
        optimizer.apply(list(gradients), list(variables))


def optimizer_variables(optimizer: Any) -> list[Any]:
    """Every variable an optimizer keeps: iterations, slots, moving averages."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def leaf_layers(model: Any) -> list[Any]:
    """Layers that hold no other layers, in the model's order: where computing happens."""
    flatten = getattr(model, "_flatten_layers", None)
    if flatten is None:
        return list(model.layers)
    return [layer for layer in flatten(include_self=False) if not list(layer._flatten_layers(include_self=False))]
