"""The narrow view of NVML that the rest of the probe reads through.

Two implementations: :mod:`autotune.probe.nvml` asks the driver, :mod:`autotune.probe.recorded` answers from a file. So
what a recorded machine prints is what the code would print on that machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

# NVML's return codes that are treated apart.
NOT_SUPPORTED = 3
NO_PERMISSION = 4
FUNCTION_NOT_FOUND = 13
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999
# Ours: the answer came and made no sense.
UNREADABLE = -1

# Own sentences: after a failed start, nvmlErrorString can return a wild pointer (hashcat PR 2773).
_REASONS = {
    1: "NVML is not initialised",
    2: "the driver rejected the question as invalid",
    NOT_SUPPORTED: "not supported on this device",
    NO_PERMISSION: "needs permission",
    6: "not found",
    7: "the answer did not fit",
    8: "the GPU lacks external power",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    10: "timed out",
    11: "an interrupt problem blocks the GPU",
    LIBRARY_NOT_FOUND: "NVIDIA's management library is not installed",
    FUNCTION_NOT_FOUND: "this driver does not offer it",
    14: "the GPU's stored data is corrupt",
    GPU_IS_LOST: "the GPU is lost (fallen off the bus)",
    16: "the GPU needs a reset",
    17: "the operating system blocks the GPU",
    LIB_RM_VERSION_MISMATCH: "the driver and its library have different versions",
    19: "the GPU is in use",
    20: "out of memory",
    21: "no data",
    25: "the driver uses another version of this structure",
    28: "no such GPU",
    UNKNOWN: "the driver answered 'unknown error'",
    UNREADABLE: "the driver's answer could not be read",
}


def reason_for(code: int) -> str:
    """Returns a clause for an NVML return code, from a table of our own."""
    return _REASONS.get(code, f"NVML error {code}")


class NvmlFailure(Exception):  # noqa: N818 - a failed reading is expected, and handled next to the call
    """One NVML call failed.

    Args:
        code: NVML's return code, or :data:`UNREADABLE`.
        detail: replaces the table's sentence.
    """

    def __init__(self, code: int, detail: str | None = None) -> None:
        super().__init__(detail or reason_for(code))
        self.code = code
        self.reason = detail or reason_for(code)


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """NVML's memory figures in bytes; ``reserved`` is None from the v1 call."""

    total: int
    used: int
    free: int
    reserved: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One entry of a process list; ``memory`` is None where the driver does not say."""

    pid: int
    memory: int | None


# What can be asked of a device, in NVML's units. The comment gives the value's type.
Query = Literal[
    "name",  # str
    "uuid",  # str
    "pci_bus_id",  # str
    "compute_capability",  # (major, minor)
    "memory_v2",  # MemoryReading
    "memory_v1",  # MemoryReading
    "cores",  # int, CUDA cores
    "mig_mode",  # (current, pending)
    "mig_max_slices",  # int
    "mig_attributes",  # (SM count, memory in MiB)
    "gpu_instance_id",  # int
    "compute_instance_id",  # int
    "compute_processes",  # [ProcessReading]
    "graphics_processes",  # [ProcessReading]
    "ecc_mode",  # (current, pending)
    "power_limit_mw",  # int
    "power_draw_mw",  # int
    "clock_sm_mhz",  # int
    "clock_sm_max_mhz",  # int
    "clock_memory_mhz",  # int
    "clock_memory_max_mhz",  # int
    "throttle_bits",  # int
    "thermal_violation_ns",  # int, since the driver was loaded
    "power_violation_ns",  # int
    "temperature_c",  # int
    "utilization_percent",  # int
    "pcie_generation",  # int
    "pcie_width",  # int
    "pcie_max_generation",  # int
    "pcie_max_width",  # int
    "compute_mode",  # int
]

SystemQuery = Literal["driver_version", "nvml_version", "cuda_version"]

Handle = Any


class NvmlReader(Protocol):
    """An open NVML session. Every method raises :class:`NvmlFailure`, and nothing else."""

    def system(self, what: SystemQuery) -> Any:
        """Returns a fact of the machine: a version text, or CUDA's version as NVML's number (12040)."""

    def device_count(self) -> int:
        """Returns how many GPUs the driver lists."""

    def device(self, index: int) -> Handle:
        """Returns the GPU at NVML's ``index``."""

    def device_by_uuid(self, uuid: str) -> Handle:
        """Returns the GPU (or MIG slice) of that UUID."""

    def mig_slice(self, gpu: Handle, index: int) -> Handle:
        """Returns a MIG slice of ``gpu``."""

    def query(self, handle: Handle, what: Query) -> Any:
        """Returns one value of a GPU or slice, in NVML's own units."""

    def close(self) -> None:
        """Ends the session."""
