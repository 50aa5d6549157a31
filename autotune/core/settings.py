"""What one training loop is asked to do: the settings that the tuner searches and a training script loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Precision = Literal["float32", "mixed_float16", "mixed_bfloat16"]
Execution = Literal["stepped", "fused", "unrolled"]
Tail = Literal["use", "drop"]

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
EXECUTIONS: tuple[Execution, ...] = get_args(Execution)

DEFAULT_LOSS_SCALE = 2.0**15


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScaleSettings:
    """How the loss scale moves. Counted per *update* (a whole accumulation window), never per micro-batch.

    Attributes:
        dynamic: False keeps the initial scale for good.
        growth_interval: finite updates in a row after which the scale grows.
        growth_factor: factor of one growth.
        backoff_factor: factor applied when an update's gradients were not finite.
        minimum: the floor; a scale that sits on it is reported.
        maximum: the ceiling.
    """

    dynamic: bool = True
    growth_interval: int = 2000
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    minimum: float = 2.0**-14
    maximum: float = 2.0**40


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Settings of one training loop. Frozen; every combination that can be constructed is consistent.

    Attributes:
        global_batch: samples per optimizer update, over all replicas. Exact.
        micro_batch: samples in one forward/backward pass on one replica.
        replicas: devices that train in step.
        precision: a Keras dtype policy.
        execution: how an update is compiled.
        jit_compile: compile with XLA.
        recompute: recompute the workload's named blocks in the backward pass.
        initial_loss_scale: None takes the default (2**15) for float16; unused by other precisions.
        loss_scale: how the loss scale moves.
        tail: what happens to the end of an epoch that is not a whole global batch.
        seed: seeds weights, shuffling and dropout.

    Raises:
        ValueError: a value out of range, named in one sentence.
    """

    global_batch: int
    micro_batch: int
    replicas: int = 1
    precision: Precision = "float32"
    execution: Execution = "fused"
    jit_compile: bool = False
    recompute: bool = False
    initial_loss_scale: float | None = None
    loss_scale: LossScaleSettings = LossScaleSettings()
    tail: Tail = "use"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("global_batch", "micro_batch", "replicas"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.global_batch % self.replicas:
            raise ValueError(
                f"global_batch {self.global_batch} cannot be shared evenly by {self.replicas} replicas; "
                f"use a multiple of {self.replicas}"
            )
        if self.micro_batch > self.replica_batch:
            raise ValueError(
                f"micro_batch {self.micro_batch} is larger than a replica's share of the global batch "
                f"({self.replica_batch}); use at most {self.replica_batch}"
            )
        for name, allowed in (("precision", PRECISIONS), ("execution", EXECUTIONS), ("tail", get_args(Tail))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if self.initial_loss_scale is not None and not self.initial_loss_scale > 0:
            raise ValueError(f"initial_loss_scale must be above 0, got {self.initial_loss_scale!r}")

    @property
    def replica_batch(self) -> int:
        """Samples of one update on one replica."""
        return self.global_batch // self.replicas

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches per update and replica; the last one may be smaller than ``micro_batch``."""
        return -(-self.replica_batch // self.micro_batch)
