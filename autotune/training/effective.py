"""What really ran, read off the layers and the compiled functions, not off what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.core.settings import Precision, TrainSettings
from autotune.training import flavour

_COMPUTE = {"float32": "float32", "mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


def layers_that_differ(model: Any, precision: Precision) -> list[str]:
    """Layers whose compute dtype is another than the precision's, as ``name (dtype)``."""
    wanted = _COMPUTE[precision]
    return [
        f"{layer.name} ({dtype})"
        for layer in flavour.leaf_layers(model)
        if (dtype := getattr(layer, "compute_dtype", wanted)) not in (wanted, None) and not _is_input(layer)
    ]


def effective_precision(model: Any, precision: Precision) -> str:
    """The precision that the layers compute in.

    A 16-bit precision is what ran if layers compute in it and none in the other 16-bit type: single float32 layers (an
    output layer, a normalisation) belong to mixed precision. float32 is what ran if no layer computes in 16 bits.
    """
    layers = [layer for layer in flavour.leaf_layers(model) if not _is_input(layer)]
    used: set[str] = {str(getattr(layer, "compute_dtype", None)) for layer in layers} & set(_COMPUTE.values())
    wanted = _COMPUTE[precision]
    sixteen = used - {"float32"}
    if sixteen == ({wanted} if wanted != "float32" else set()):
        return precision
    if len(sixteen) == 1:
        return f"mixed_{sixteen.pop()}"
    return "+".join(sorted(used)) if sixteen else "float32"


def effective_jit(functions: Sequence[Any]) -> bool:
    """Whether every traced function of an update must be compiled by XLA."""
    traced = [c for function in functions for c in function._list_all_concrete_functions()]
    return bool(traced) and all(c.function_def.attr["_XlaMustCompile"].b for c in traced)


def describe(settings: TrainSettings, model: Any, execution: Any) -> dict[str, str]:
    """See :meth:`autotune.training.loop.AccumulationLoop.effective`."""
    differing = layers_that_differ(model, settings.precision)
    return {
        "precision": effective_precision(model, settings.precision),
        "layers_that_differ": ", ".join(differing),
        "jit_compile": "true" if effective_jit(execution.functions) else "false",
        "execution": execution.name if settings.accumulation_steps > 1 else "single",
    }


def _is_input(layer: Any) -> bool:
    return type(layer).__name__ == "InputLayer"
