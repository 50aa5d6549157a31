"""Tensor Cores from compute capability *and* name: which types they multiply, and which Keras policy follows. Pure.

Sources: NVIDIA's compute capability lists (developer.nvidia.com/cuda-gpus), the CUTLASS and TensorRT-RTX support
matrices for types, NVIDIA's Linear/Fully-Connected and Matrix Multiplication guides for alignment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.core.gpu import TensorCores

ComputeCapability = tuple[int, int]

# Lowest compute capability of each generation, newest first.
_GENERATIONS: tuple[tuple[ComputeCapability, str, tuple[str, ...]], ...] = (
    ((10, 0), "Blackwell", ("float16", "bfloat16", "tf32", "float8", "int8")),
    ((9, 0), "Hopper", ("float16", "bfloat16", "tf32", "float8", "int8")),
    ((8, 9), "Ada", ("float16", "bfloat16", "tf32", "float8", "int8")),
    ((8, 0), "Ampere", ("float16", "bfloat16", "tf32", "int8")),
    ((7, 5), "Turing", ("float16", "int8")),
    ((7, 2), "Volta", ("float16", "int8")),  # Xavier
    ((7, 0), "Volta", ("float16",)),
    ((6, 0), "Pascal", ()),
    ((5, 0), "Maxwell", ()),
    ((3, 0), "Kepler", ()),
)
_NEWEST_MAJOR = 12

# TU116 and TU117 are compute capability 7.5 with FP16 units in place of Tensor Cores (GTX 16 series, MX450 and MX550,
# T400 to T1200, Quadro T1000/T2000, CMP 30HX). "T4" is a full Turing.
_WITHOUT_TENSOR_CORES = re.compile(
    r"GTX\s*16\d\d|\bMX[45]50\b|\bT(?:400|500|550|600|1000|1200)\b|\bT2000\b|CMP 30HX", re.IGNORECASE
)

# Machine code in TensorFlow 2.21's own wheel: tf.sysconfig.get_build_info() lists sm_60, sm_70, sm_80, sm_89 and
# compute_90 (which includes machine code for 9.0, says TensorFlow's configure script). Machine code runs on
# later minor versions of its major version only.
_COMPILED_MAJORS = (6, 7, 8, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do with the verdict.

    Attributes:
        policy: Keras dtype policy to try first.
        because: one clause.
        supported: Keras dtype policies that run at speed.
        batch_alignment: multiple that micro-batches should prefer.
        width_alignment: multiple that layer widths should prefer.
    """

    policy: str
    because: str
    supported: tuple[str, ...]
    batch_alignment: int
    width_alignment: int


def parse_capability(text: str) -> ComputeCapability:
    """``'8.0' -> (8, 0)``."""
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def verdict(capability: ComputeCapability | None, name: str | None) -> TensorCores:
    """Returns whether the GPU has Tensor Cores, of which generation, for which types.

    ``present`` is None where it cannot be told: no capability, or 7.5 without a readable name.
    """
    if capability is None:
        return TensorCores()
    generation, dtypes = next(((g, d) for low, g, d in _GENERATIONS if capability >= low), ("older than Kepler", ()))
    if capability[0] > _NEWEST_MAJOR:
        generation = "newer than Blackwell"
    if capability == (7, 5):
        if not name:
            return TensorCores(generation=generation)
        if _WITHOUT_TENSOR_CORES.search(name):
            return TensorCores(present=False, generation=generation)
    return TensorCores(present=bool(dtypes), generation=generation, dtypes=dtypes)


def advise(capability: ComputeCapability | None, cores: TensorCores) -> Advice | None:
    """Returns the advised Keras policy and alignments; None where the compute capability is not known."""
    if capability is None:
        return None
    if cores.present and "bfloat16" in cores.dtypes:
        return Advice(
            policy="mixed_bfloat16",
            because=f"{cores.generation} Tensor Cores run bfloat16 at the rate of float16, and it needs no loss scale",
            supported=("float32", "mixed_float16", "mixed_bfloat16"),
            # 16 bytes of a 16-bit type; 64 elements fill the 128-byte loads of these generations.
            batch_alignment=8,
            width_alignment=64,
        )
    if cores.present:
        return Advice(
            policy="mixed_float16",
            because=f"{cores.generation} Tensor Cores multiply float16 and have no bfloat16; it needs a loss scale",
            supported=("float32", "mixed_float16"),
            batch_alignment=8,
            width_alignment=8,
        )
    if cores.present is None:
        why = "the name could not be read, and at 7.5 only the name tells whether there are Tensor Cores"
        return Advice(policy="float32", because=why, supported=("float32",), batch_alignment=8, width_alignment=8)
    if capability == (7, 5):
        why = "this Turing has no Tensor Cores; mixed_float16 halves activations and may gain some speed: measure it"
        supported: tuple[str, ...] = ("float32", "mixed_float16")
    else:
        why, supported = "no Tensor Cores: 16-bit types save memory, and seldom time", ("float32",)
    return Advice(policy="float32", because=why, supported=supported, batch_alignment=1, width_alignment=1)


def kernel_warning(capability: ComputeCapability | None) -> str | None:
    """Returns a sentence where TensorFlow's own wheel (2.21) has no compiled kernels for the GPU."""
    if capability is None or capability[0] in _COMPILED_MAJORS:
        return None
    shown = f"{capability[0]}.{capability[1]}"
    if capability[0] < _COMPILED_MAJORS[0]:
        return (
            f"TensorFlow's own wheel has no kernels for compute capability {shown} (lowest: 6.0); "
            "use a build of TensorFlow made for this GPU"
        )
    return (
        f"TensorFlow's own wheel (2.21) has no compiled kernels for compute capability {shown}: they are compiled at "
        "first use, which can take 30 minutes and often fails (tensorflow #97387, #89272); use NVIDIA's TensorFlow "
        "container or a build for this GPU"
    )
