"""Where a peak's bytes go, and what each way of having fewer of them would save."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.units import format_bytes

# Recomputing named blocks left 0.30 of the batch-dependent peak, 0.20 jitted (docs/training.md); half is promised.
RECOMPUTE_LEAVES = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Bytes on one device that are known from the built model, before anything runs.

    Attributes:
        weight_bytes: variables of the model.
        optimizer_bytes: the optimizer's state.
        gradient_bytes: one copy of the trainable weights: an accumulator, and what an all-reduce moves.
        sample_bytes: one sample of a resident window.
        recomputable: the workload names blocks to recompute.
    """

    weight_bytes: int
    optimizer_bytes: int
    gradient_bytes: int
    sample_bytes: int = 0
    recomputable: bool = False

    def static_bytes(self, *, accumulates: bool) -> int:
        """Bytes that are there whatever the micro-batch."""
        return self.weight_bytes + self.optimizer_bytes + (self.gradient_bytes if accumulates else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """A peak by what it is for. ``activation_bytes`` grows with the micro-batch; ``rest_bytes`` is workspace, gradients
    on their way, and what the allocator rounds up.
    """

    weight_bytes: int
    optimizer_bytes: int
    accumulator_bytes: int
    window_bytes: int
    activation_bytes: int
    rest_bytes: int


def decompose(
    parts: Parts, *, peak_bytes: float, intercept: float, accumulates: bool, global_batch: int
) -> Decomposition:
    """Splits a peak.

    Args:
        parts: what the built model says.
        peak_bytes: the peak.
        intercept: the part of it that the micro-batch does not move, from the fit.
        accumulates: more than one micro-batch per update.
        global_batch: samples of the resident window.
    """
    accumulator = parts.gradient_bytes if accumulates else 0
    window = min(parts.sample_bytes * global_batch, int(peak_bytes))
    static = parts.static_bytes(accumulates=accumulates) + window
    activation = max(0, int(peak_bytes - max(intercept, static)))
    return Decomposition(
        weight_bytes=parts.weight_bytes,
        optimizer_bytes=parts.optimizer_bytes,
        accumulator_bytes=accumulator,
        window_bytes=window,
        activation_bytes=activation,
        rest_bytes=max(0, int(peak_bytes) - static - activation),
    )


def remedies(parts: Parts | None, *, needed: float, usable: int, activation_bytes: float) -> list[str]:
    """Ways to make the smallest micro-batch fit, each with the bytes it saves; empty where nothing is known.

    Args:
        parts: what the built model says; None where it is not known.
        needed: upper end of the peak at micro-batch 1.
        usable: what the GPU offers.
        activation_bytes: the part of the peak that recomputing can shrink.
    """
    if parts is None:
        return [f"a GPU with {format_bytes(needed - usable)} more, a lighter optimizer, recompute or model parallelism"]
    found: list[str] = []
    if activation_bytes > 0:
        saved = format_bytes((1 - RECOMPUTE_LEAVES) * activation_bytes)
        how = "recompute" if parts.recomputable else "recompute (name the blocks in the Workload)"
        found.append(f"{how} saves about {saved}")
    if parts.optimizer_bytes > 0:
        found.append(f"an optimizer without state (SGD) saves {format_bytes(parts.optimizer_bytes)}")
    if parts.gradient_bytes > 0:
        found.append(f"one step instead of accumulation saves {format_bytes(parts.gradient_bytes)}")
    halved = (parts.weight_bytes + parts.optimizer_bytes) // 2
    found.append(f"model parallelism over 2 GPUs saves about {format_bytes(halved)} on each")
    found.append(f"a wider GPU needs {format_bytes(needed - usable)} more than this one")
    return found
