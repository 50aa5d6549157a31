"""What a loop warns of when it is made."""

from __future__ import annotations

from typing import Any

from autotune.core.settings import TrainSettings
from autotune.training import flavour
from autotune.training.effective import effective_precision, layers_that_differ
from autotune.training.parts import Anatomy


def construction_warnings(model: Any, anatomy: Anatomy, settings: TrainSettings) -> list[str]:
    """Sentences for the user about this model under these settings."""
    return [*_normalisation(model, settings), *_float16(model, anatomy), *_precision(model, settings)]


def correct_batch_norm(model: Any, steps: int) -> None:
    """Lets running statistics move per update as they would for the full batch: momentum ** (1 / steps).

    Args:
        model: the model, changed in place.
        steps: accumulation steps.
    """
    for layer in flavour.leaf_layers(model):
        if _is_batch_norm(layer):
            layer.momentum = layer.momentum ** (1 / steps)


def _normalisation(model: Any, settings: TrainSettings) -> list[str]:
    names = [layer.name for layer in flavour.leaf_layers(model) if _is_batch_norm(layer)]
    steps = settings.accumulation_steps
    if not names or steps == 1:
        return []
    sentences = [
        f"{_some(names)}: BatchNormalization takes its statistics per micro-batch of {settings.micro_batch}, so "
        f"accumulation is not exactly the full batch; its running statistics move {steps} times per update "
        f"(momentum ** (1/{steps}) keeps their pace)"
    ]
    if settings.jit_compile and settings.execution != "unrolled" and settings.replica_batch % settings.micro_batch:
        sentences.append(
            f"{_some(names)}: with jit_compile the shorter last micro-batch is padded with copies of samples, which "
            "BatchNormalization counts; use a micro-batch that divides the global batch, or no jit_compile"
        )
    return sentences


def _float16(model: Any, anatomy: Anatomy) -> list[str]:
    sentences = []
    half = [layer for layer in flavour.leaf_layers(model) if getattr(layer, "compute_dtype", None) == "float16"]
    softmax = [layer.name for layer in half if _is_softmax(layer)]
    if softmax:
        sentences.append(
            f"{_some(softmax)}: softmax in float16 loses small probabilities; give the layer dtype='float32'"
        )
    if anatomy.losses_dtype.name == "float16" or (
        half and model.layers and model.layers[-1] is half[-1] and not softmax
    ):
        sentences.append(
            "the model's outputs or losses are float16, where a loss above 65504 overflows; give the last layer "
            "dtype='float32'"
        )
    return sentences


def _precision(model: Any, settings: TrainSettings) -> list[str]:
    ran = effective_precision(model, settings.precision)
    if ran == settings.precision:
        return []
    return [
        f"{settings.precision} was asked for, but layers compute in another type ({ran}): "
        f"{_some(layers_that_differ(model, settings.precision))}"
    ]


def _is_batch_norm(layer: Any) -> bool:
    return any(base.__name__ in ("BatchNormalization", "SyncBatchNormalization") for base in type(layer).__mro__)


def _is_softmax(layer: Any) -> bool:
    return type(layer).__name__ == "Softmax" or getattr(getattr(layer, "activation", None), "__name__", "") == "softmax"


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
