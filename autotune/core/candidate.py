"""One point of the search space."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.settings import Execution, Precision, TrainSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The searched part of :class:`TrainSettings`; the same names mean the same things.

    ``execution``, ``jit_compile`` and ``recompute`` are None where the loop is the user's own and does not offer that
    axis; ``initial_loss_scale`` is None for every precision but float16. Accumulation is derived, so that no candidate
    can change the global batch.
    """

    global_batch: int
    micro_batch: int
    replicas: int = 1
    precision: Precision | None = "float32"
    execution: Execution | None = "fused"
    jit_compile: bool | None = False
    recompute: bool | None = False
    initial_loss_scale: float | None = None

    def __post_init__(self) -> None:
        self.settings(seed=0)  # the same checks hold for both

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches per update and replica."""
        return -(-(self.global_batch // self.replicas) // self.micro_batch)

    def settings(self, *, seed: int) -> TrainSettings:
        """Returns the settings of the loop that runs this candidate; axes that are not offered take their defaults."""
        return TrainSettings(
            global_batch=self.global_batch,
            micro_batch=self.micro_batch,
            replicas=self.replicas,
            precision=self.precision or "float32",
            execution=self.execution or "fused",
            jit_compile=bool(self.jit_compile),
            recompute=bool(self.recompute),
            initial_loss_scale=self.initial_loss_scale,
            seed=seed,
        )

    def describe(self) -> str:
        """For people: ``micro-batch 64 x 4 accumulation steps, fused, jitted``."""
        steps = self.accumulation_steps
        parts = [f"micro-batch {self.micro_batch} x {steps} accumulation step{'s' if steps > 1 else ''}"]
        if self.precision not in (None, "float32"):
            parts.append(self.precision)
        if self.execution is not None and steps > 1:
            parts.append(self.execution)
        if self.jit_compile:
            parts.append("jitted")
        if self.recompute:
            parts.append("recomputed")
        if self.initial_loss_scale is not None:
            parts.append(f"loss scale {self.initial_loss_scale:g}")
        return ", ".join(parts)
