"""Throughput on another GPU, and on several: scaled by what limits the workload.

A program spends part of its time on arithmetic and part on memory traffic. On another board the first part scales with
the peak of the dtype it multiplies in, the second with the memory bandwidth. No board reaches its peaks, and the larger
its peak, the less of it is reached: so the two ratios are averaged geometrically, weighted by their shares of the time,
which over the public tables errs less than adding times up. The shares follow from operation and byte counts of the
compiled update; where there are none, a wide span of shares is possible and the range says so. Overhead that the host
causes does not scale at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.core.gpu_spec import GpuSpec
from autotune.core.plan.values import Range

# What real kernels reach of a board's two peaks. Only their ratio counts, and it only moves the share of the time that
# is arithmetic; chosen so that BERT and ResNet-50 get the shares that the public tables show (about 0.35 and 0.15).
ARITHMETIC_REACHED = 0.6
TRAFFIC_REACHED = 0.6
# Half-width of the 90 % range of a predicted ratio, in logarithms: 1.645 x the standard deviation over the public
# tables in tests/plan/data (Lambda: 11 GPUs, 7 models, 2 precisions; NVIDIA: V100 and A100).
RATIO_ERROR = 0.40
# Shares that are possible where nothing was counted.
UNKNOWN_SHARE, LEAST_SHARE, MOST_SHARE = 0.33, 0.1, 0.6

# NVLink and PCI Express, bytes per second and direction, as NVIDIA's data sheets give them; generally quoted.
_NVLINK = {"7.0": 150e9, "8.0": 300e9, "9.0": 450e9, "10.0": 900e9}
_PCIE = ((8, 16e9), (9, 32e9), (10, 64e9))  # below compute capability 8: generation 3; 8: 4; 9 and above: 5
# Share of a link that an all-reduce reaches. PCI Express: from two RTX 4090 and two RTX 3090 on BERT-large in Lambda's
# table, whose traffic goes through the host.
_NVLINK_REACHED, _PCIE_REACHED = 0.7, 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations and traffic of one program, from its compiled update in float32 (16-bit types halve the traffic).

    Attributes:
        flops_per_sample, bytes_per_sample: of forward and backward pass, one sample more.
        flops_per_update, bytes_per_update: whatever the batch (the optimizer).
        gradient_bytes: what an all-reduce moves.
    """

    flops_per_sample: float
    bytes_per_sample: float
    flops_per_update: float = 0.0
    bytes_per_update: float = 0.0
    gradient_bytes: float | None = None

    def arithmetic_share(self, gpu: GpuSpec, precision: str | None) -> float:
        """Share of the time on ``gpu`` that is arithmetic, 0 to 1."""
        arithmetic = self.flops_per_sample / (ARITHMETIC_REACHED * peak_flops(gpu, precision))
        halved = 0.5 if precision in ("mixed_float16", "mixed_bfloat16") else 1.0
        traffic = halved * self.bytes_per_sample / (TRAFFIC_REACHED * gpu.memory_bandwidth_bytes_per_s)
        return arithmetic / (arithmetic + traffic) if arithmetic + traffic > 0 else UNKNOWN_SHARE


def peak_flops(gpu: GpuSpec, precision: str | None) -> float:
    """Peak of the units that a policy multiplies on: TensorFlow runs float32 products as TF32 where there is TF32."""
    peaks = gpu.tensor_flops_per_s
    if precision == "mixed_float16":
        return peaks.get("float16") or gpu.float16_flops_per_s or gpu.float32_flops_per_s
    if precision == "mixed_bfloat16":
        return peaks.get("bfloat16") or gpu.float32_flops_per_s
    return peaks.get("tf32") or gpu.float32_flops_per_s


def runs_at_speed(gpu: GpuSpec, precision: str | None) -> bool:
    """True where the board has units for the policy's dtype."""
    if precision == "mixed_float16":
        return "float16" in gpu.tensor_flops_per_s or gpu.float16_flops_per_s is not None
    return precision != "mixed_bfloat16" or "bfloat16" in gpu.tensor_flops_per_s


def time_ratio(source: GpuSpec, target: GpuSpec, precision: str | None, work: Work | None) -> Range:
    """Time of the same work on ``target``, relative to ``source``.

    Args:
        source: where it was measured.
        target: where it is to run.
        precision: dtype policy.
        work: what it computes and moves; None where that is not known.
    """
    if source.id == target.id:
        return Range(low=1.0, expected=1.0, high=1.0)
    shares = [work.arithmetic_share(gpu, precision) for gpu in (source, target)] if work else []
    share = sum(shares) / 2 if shares else None  # what limits one board need not limit the other
    arithmetic = math.log(peak_flops(source, precision) / peak_flops(target, precision))
    traffic = math.log(source.memory_bandwidth_bytes_per_s / target.memory_bandwidth_bytes_per_s)

    def mixed(of_arithmetic: float) -> float:
        return of_arithmetic * arithmetic + (1 - of_arithmetic) * traffic

    expected = mixed(UNKNOWN_SHARE if share is None else share)
    ends = [mixed(LEAST_SHARE), mixed(MOST_SHARE)] if share is None else [expected]
    return Range(
        low=math.exp(min(ends) - RATIO_ERROR), expected=math.exp(expected), high=math.exp(max(ends) + RATIO_ERROR)
    )


def link_speed(gpu: GpuSpec) -> float:
    """Bytes per second and direction that an all-reduce reaches: over NVLink on SXM boards, else over PCI Express."""
    if "-SXM" in gpu.id or gpu.id == "B200":
        return _NVLINK_REACHED * _NVLINK.get(gpu.compute_capability, 300e9)
    major = int(gpu.compute_capability.split(".")[0])
    return _PCIE_REACHED * next((speed for below, speed in _PCIE if major < below), _PCIE[-1][1])


def all_reduce_s(gradient_bytes: float, count: int, link_bytes_per_s: float) -> float:
    """Seconds of one ring all-reduce: each GPU sends and receives 2 (n - 1) / n of the gradients."""
    if count == 1:
        return 0.0
    return 2 * (count - 1) / count * gradient_bytes / link_bytes_per_s
