"""A GPU board as its data sheet describes it: one entry of the GPU catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Confidence = Literal["measured", "datasheet", "derived", "reported", "unverified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a figure is from.

    Attributes:
        source: the key of the catalogue's table of sources, with a detail where it has one (``techpowerup c3506``).
        confidence: ``measured`` on a real board; ``datasheet``; ``derived`` by a stated formula; ``reported`` by users;
            ``unverified``.
    """

    source: str
    confidence: Confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One board. A figure that is not known is None. Only ratios of peaks should decide anything.

    Attributes:
        id: such as ``A100-SXM-80GB``.
        aliases: other names people type.
        names: names NVML reports, without a leading ``NVIDIA``.
        architecture: ``Pascal`` ... ``Blackwell``.
        compute_capability: such as ``8.0``.
        sm_count: streaming multiprocessors.
        boost_clock_mhz: the clock the peaks are stated for.
        memory_total_bytes: as NVML shows it (with ECC where the board ships with it on).
        memory_reserved_bytes: the driver's own part of that.
        memory_bandwidth_bytes_per_s: peak.
        tensor_flops_per_s: dense Tensor Core peak by dtype, float32 accumulation; empty without Tensor Cores.
        float16_flops_per_s: peak of ordinary float16 units, where Tensor Cores are absent.
        float32_flops_per_s: peak of the ordinary units.
        tdp_w: board power.
        unified_memory: True where GPU and CPU share one memory.
        provenance: by field name; ``tensor_flops_per_s.float16`` for one dtype.
    """

    id: str
    aliases: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    architecture: str
    compute_capability: str
    sm_count: int
    boost_clock_mhz: int
    memory_total_bytes: int
    memory_reserved_bytes: int | None = None
    memory_bandwidth_bytes_per_s: float
    tensor_flops_per_s: dict[str, float] = field(default_factory=dict)
    float16_flops_per_s: float | None = None
    float32_flops_per_s: float
    tdp_w: float
    unified_memory: bool = False
    provenance: dict[str, Provenance] = field(default_factory=dict)
