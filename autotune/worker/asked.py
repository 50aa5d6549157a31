"""Asked is what ran: compares a candidate with what took effect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from autotune.core.candidate import Candidate
from autotune.core.settings import TrainSettings
from autotune.worker.failures import NotAsAskedError
from autotune.worker.loops import Update

_DERIVED = {"micro_batch": ("micro_batch", "accumulation_steps")}
_SINGLE = "single"  # execution of an update that is one micro-batch: all modes are the same then
_AXES = ("precision", "execution", "jit_compile", "recompute", "initial_loss_scale", "micro_batch")


def check_reads(candidate: Candidate, settings: TrainSettings, reads: Iterable[str]) -> list[str]:
    """Checks that a loop of the user's own looked at every axis that is searched.

    Returns:
        warnings for axes that were not read, but whose value is the default anyhow.

    Raises:
        NotAsAskedError: an axis was never read, so another value would have run the same.
    """
    read = set(reads)
    warnings = []
    default = TrainSettings(global_batch=settings.global_batch, micro_batch=settings.global_batch)
    for axis in _AXES:
        if getattr(candidate, axis) is None or read & set(_DERIVED.get(axis, (axis,))):
            continue
        sentence = f"make_loop never read settings.{axis}, so searching it has no effect"
        if axis == "micro_batch" or getattr(settings, axis) != getattr(default, axis):
            raise NotAsAskedError(f"{sentence}; read it, or leave that axis out")
        warnings.append(sentence)
    return warnings


def check_policy(candidate: Candidate, loop: Any) -> tuple[dict[str, str], list[str]]:
    """Reads back which Keras dtype policy a loop of the user's own trains under.

    Returns:
        ``{"precision": policy}`` where one can be seen, and warnings.

    Raises:
        NotAsAskedError: no layer of the loop's model computes in the precision that was asked for.
    """
    keras = sys.modules.get("keras")
    if keras is None or candidate.precision is None:
        return {}, []
    policies = {layer.dtype_policy.name for layer in _layers(loop, keras)}
    seen = "+".join(sorted(policies)) or keras.config.dtype_policy().name
    if candidate.precision in (policies or {seen}):
        others = sorted(policies - {candidate.precision})
        also = f"some layers train in {', '.join(others)}, not in {candidate.precision}"
        return {"precision": seen}, [also] if others else []
    if policies:
        raise NotAsAskedError(f"asked for {candidate.precision}, but the loop's model trains in {seen}")
    return {"precision": seen}, [
        f"asked for {candidate.precision}, while Keras's global policy is {seen}; whether the loop honours it cannot "
        "be seen (a 'model' attribute on the loop would show it)"
    ]


def _layers(loop: Any, keras: Any) -> list[Any]:
    model = getattr(loop, "model", None)
    if not isinstance(model, keras.Model):
        return []
    todo, leaves = list(model.layers), []
    while todo:
        layer = todo.pop()
        todo += getattr(layer, "layers", [])
        if layer.weights and not getattr(layer, "layers", []):
            leaves.append(layer)
    return leaves


def check_effective(candidate: Candidate, effective: Mapping[str, str]) -> None:
    """Checks our own loop's report of what it runs.

    Raises:
        NotAsAskedError: it runs something else.
    """
    for axis in ("precision", "jit_compile", "execution", "recompute"):
        asked = getattr(candidate, axis)
        if asked is None or effective.get(axis, _SINGLE) == _SINGLE:
            continue
        if effective[axis].lower() != str(asked).lower():
            raise NotAsAskedError(f"asked for {axis} {str(asked).lower()}, but {effective[axis]} ran")


def check_samples(candidate: Candidate, updates: Iterable[Update]) -> None:
    """Checks that updates covered the global batch; the last one of an epoch may be shorter.

    Raises:
        NotAsAskedError: none did.
    """
    sizes = {u.samples for u in updates if u.samples is not None}
    if sizes and candidate.global_batch not in sizes:
        shown = ", ".join(str(size) for size in sorted(sizes)[:3])
        raise NotAsAskedError(f"asked for updates of {candidate.global_batch} samples, but update() reported {shown}")
