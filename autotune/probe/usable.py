"""How much of a GPU's free memory a new TensorFlow process may use. Pure.

TensorFlow creates its CUDA context, asks CUDA what is free *then*, and leaves a reserve to the system
(``SingleVirtualDeviceMemoryLimit`` in ``gpu_device.cc``): usable = free - context - reserve. Compared with the line
"Created device ... GPU:0 with N MB memory" in public logs of otherwise idle boards, this is within 2 %
(``tests/probe/test_usable.py`` has the figures).
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.core.gpu import UsableMemory

_MIB = 2**20

# MinSystemMemory() in tensorflow/core/common_runtime/gpu/gpu_device.cc: (highest major version, MiB).
_RESERVE_MIB = ((6, 500), (7, 1050), (8, 1536))
_RESERVE_NEWEST_MIB = 1800
_SMALL_RESERVE_MIB = 225
_RESERVE_VARIABLE = "TF_DEVICE_MIN_SYS_MEMORY_IN_MB"

# An empty CUDA context grows with the SM count. Measured: B200 612 MiB / 148 SMs (unslothai/unsloth PR 8669), RTX PRO
# 6000 555 / 188 and RTX 4060 Ti 107 / 34 (ggml-org/llama.cpp PR 23604). The highest per SM is taken.
_CONTEXT_MIB_PER_SM = 4.2
_CONTEXT_MIB_UNKNOWN = 612


def usable_memory(
    free_bytes: int, *, cc_major: int | None, multiprocessors: int | None, environment: Mapping[str, str]
) -> UsableMemory:
    """Splits ``free_bytes`` into what TensorFlow can use and what it cannot.

    Args:
        free_bytes: free now (without the driver's reserved part).
        cc_major: major compute capability; None takes the largest reserve.
        multiprocessors: SM count; None takes the largest context seen.
        environment: ``TF_DEVICE_MIN_SYS_MEMORY_IN_MB`` is honoured as TensorFlow does.
    """
    if multiprocessors:
        context = min(free_bytes, round(_CONTEXT_MIB_PER_SM * multiprocessors * _MIB))
        context_source = (
            f"estimate: {_CONTEXT_MIB_PER_SM} MiB for each of {multiprocessors} SMs (highest of 3 measured)"
        )
    else:
        context = min(free_bytes, _CONTEXT_MIB_UNKNOWN * _MIB)
        context_source = f"estimate: SM count unknown, {_CONTEXT_MIB_UNKNOWN} MiB (highest of 3 measured)"
    reserve, reserve_source = _reserve(free_bytes - context, cc_major, environment)
    return UsableMemory(
        free_bytes=free_bytes,
        cuda_context_bytes=context,
        cuda_context_source=context_source,
        tensorflow_reserve_bytes=reserve,
        tensorflow_reserve_source=reserve_source,
    )


def _reserve(available: int, cc_major: int | None, environment: Mapping[str, str]) -> tuple[int, str]:
    asked = environment.get(_RESERVE_VARIABLE, "").strip()
    if asked.isdigit() and int(asked) * _MIB <= available:  # TensorFlow ignores any other value
        return int(asked) * _MIB, _RESERVE_VARIABLE
    source = "TensorFlow's gpu_device.cc, MinSystemMemory"
    if available < 2 * 2**30:
        reserve, rule = _SMALL_RESERVE_MIB, "below 2 GiB free"
    elif cc_major is None:
        reserve, rule = _RESERVE_NEWEST_MIB, "compute capability unknown: the largest"
    else:
        reserve = next((mib for major, mib in _RESERVE_MIB if cc_major <= major), _RESERVE_NEWEST_MIB)
        rule = f"compute capability {cc_major}.x"
    # TensorFlow takes all where the reserve does not fit.
    return (reserve * _MIB if reserve * _MIB < available else 0), f"{source} ({rule})"
