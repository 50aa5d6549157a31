"""Recorded machines: NVML's answers as a TOML file, read back through the same pipeline (``probe --replay``).

The tests build a C library from the same files, so that the real pynvml meets the same machine. A value that the file
does not give answers "not supported".
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from autotune.core.codec import from_plain
from autotune.core.host import HostInfo
from autotune.errors import UsageError
from autotune.probe.reader import (
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    NOT_SUPPORTED,
    Handle,
    MemoryReading,
    NvmlFailure,
    ProcessReading,
    Query,
    SystemQuery,
)
from autotune.profiles_path import profiles_folder

_MIB = 2**20
_NOT_FOUND = 6

# NVML functions behind a query, newest first. A driver that lacks all of them does not answer it.
SYMBOLS: dict[str, tuple[str, ...]] = {
    "name": ("nvmlDeviceGetName",),
    "uuid": ("nvmlDeviceGetUUID",),
    "pci_bus_id": ("nvmlDeviceGetPciInfo_v3",),
    "compute_capability": ("nvmlDeviceGetCudaComputeCapability",),
    "memory_v2": ("nvmlDeviceGetMemoryInfo_v2",),
    "memory_v1": ("nvmlDeviceGetMemoryInfo",),
    "cores": ("nvmlDeviceGetNumGpuCores",),
    "mig_mode": ("nvmlDeviceGetMigMode",),
    "mig_max_slices": ("nvmlDeviceGetMaxMigDeviceCount",),
    "mig_attributes": ("nvmlDeviceGetAttributes_v2",),
    "gpu_instance_id": ("nvmlDeviceGetGpuInstanceId",),
    "compute_instance_id": ("nvmlDeviceGetComputeInstanceId",),
    "compute_processes": ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    "graphics_processes": ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    "ecc_mode": ("nvmlDeviceGetEccMode",),
    "power_limit_mw": ("nvmlDeviceGetEnforcedPowerLimit",),
    "power_draw_mw": ("nvmlDeviceGetPowerUsage",),
    "clock_sm_mhz": ("nvmlDeviceGetClockInfo",),
    "clock_sm_max_mhz": ("nvmlDeviceGetMaxClockInfo",),
    "clock_memory_mhz": ("nvmlDeviceGetClockInfo",),
    "clock_memory_max_mhz": ("nvmlDeviceGetMaxClockInfo",),
    "throttle_bits": ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    "thermal_violation_ns": ("nvmlDeviceGetViolationStatus",),
    "power_violation_ns": ("nvmlDeviceGetViolationStatus",),
    "temperature_c": ("nvmlDeviceGetTemperature",),
    "utilization_percent": ("nvmlDeviceGetUtilizationRates",),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration",),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth",),
    "pcie_max_generation": ("nvmlDeviceGetMaxPcieLinkGeneration",),
    "pcie_max_width": ("nvmlDeviceGetMaxPcieLinkWidth",),
    "compute_mode": ("nvmlDeviceGetComputeMode",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMemory:
    """Memory in MiB; what is neither reserved nor used is free."""

    total_mib: int
    reserved_mib: int = 0
    used_mib: int = 0

    @property
    def v2(self) -> MemoryReading:
        """As the v2 call gives it: used without reserved."""
        free = self.total_mib - self.reserved_mib - self.used_mib
        return MemoryReading(self.total_mib * _MIB, self.used_mib * _MIB, free * _MIB, self.reserved_mib * _MIB)

    @property
    def v1(self) -> MemoryReading:
        """As the v1 call gives it: used with reserved (gpustat #141)."""
        v2 = self.v2
        return MemoryReading(v2.total, v2.used + (v2.reserved or 0), v2.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProcess:
    """A process; without ``memory_mib`` the driver does not say."""

    pid: int
    memory_mib: int | None = None
    kind: Literal["compute", "graphics"] = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDevice:
    """A GPU or, in ``slices``, a MIG slice.

    Attributes:
        handle_error: NVML's code when the GPU itself cannot be had (15: lost).
        values: whole numbers by query name, pairs for those that give two.
        errors: NVML's code by query name, in place of ``not supported``.
    """

    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    handle_error: int = 0
    memory: RecordedMemory | None = None
    values: dict[str, int | list[int]] = field(default_factory=dict)
    processes: list[RecordedProcess] | None = None
    errors: dict[str, int] = field(default_factory=dict)
    slices: list[RecordedDevice] = field(default_factory=list)

    def answer(self, what: Query) -> Any:
        """Returns the value, or None where there is none."""
        if what in ("name", "uuid", "pci_bus_id"):
            return getattr(self, what)
        if what in ("memory_v1", "memory_v2"):
            return getattr(self.memory, what.removeprefix("memory_")) if self.memory else None
        if what in ("compute_processes", "graphics_processes"):
            if self.processes is None:
                return None
            wanted = [p for p in self.processes if what.startswith(p.kind)]
            return [ProcessReading(p.pid, None if p.memory_mib is None else p.memory_mib * _MIB) for p in wanted]
        value = self.values.get(what)
        return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHost:
    """Host memory, for GPUs that share it."""

    memory_total_mib: int = 65536
    memory_available_mib: int = 49152
    cpu: str | None = None
    cpu_cores: int = 8

    def info(self) -> HostInfo:
        """As the probe reads it."""
        return HostInfo(
            memory_total_bytes=self.memory_total_mib * _MIB,
            memory_available_bytes=self.memory_available_mib * _MIB,
            memory_source="/proc/meminfo",
            cpu=self.cpu,
            cpu_cores=self.cpu_cores,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One machine.

    Attributes:
        description: one line.
        source: where the readings are from.
        seen_on_hardware: True only for a reading taken by this program on a real GPU.
        library: False where ``libnvidia-ml.so.1`` is not installed.
        init_error: NVML's code when it cannot start.
        cuda_version: as NVML writes it, 12040 for 12.4.
        without: functions that this driver lacks.
        cuda_order: UUIDs as CUDA itself numbers them; None where CUDA cannot be asked.
        environment: variables that matter.
        container: True where NVML's process numbers are the host's.
    """

    description: str
    source: str
    seen_on_hardware: bool = False
    library: bool = True
    init_error: int = 0
    driver_version: str | None = None
    nvml_version: str | None = None
    cuda_version: int | None = None
    without: list[str] = field(default_factory=list)
    cuda_order: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    container: bool = False
    host: RecordedHost = RecordedHost()
    gpu: list[RecordedDevice] = field(default_factory=list)


def load_recording(path: str | Path) -> Recording:
    """Reads a recorded machine: a file, or a name of a shipped one (``t4``, ``profiles/t4``).

    Raises:
        UsageError: no such file, or not a recording.
    """
    found = _find(Path(path))
    try:
        with found.open("rb") as file:
            return from_plain(Recording, tomllib.load(file), found.name)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{found} is not a recorded machine: {error}") from None


def recording_names() -> list[str]:
    """Returns the names of the shipped recordings."""
    return sorted(p.stem for p in profiles_folder().glob("*.toml") if p.stem != "gpus")


def _find(path: Path) -> Path:
    shipped = profiles_folder() / path.name
    for candidate in (path, path.with_name(path.name + ".toml"), shipped, shipped.with_name(path.name + ".toml")):
        if candidate.is_file():
            return candidate
    raise UsageError(f"no recorded machine {str(path)!r}; shipped are {', '.join(recording_names())}")


class RecordedReader:
    """Answers like NVML would on the recorded machine.

    Raises:
        NvmlFailure: where NVML would not start there.
    """

    def __init__(self, recording: Recording) -> None:
        if not recording.library:
            raise NvmlFailure(LIBRARY_NOT_FOUND)
        if recording.init_error:
            raise NvmlFailure(recording.init_error)
        self._recording = recording
        self._without = frozenset(recording.without)

    def system(self, what: SystemQuery) -> Any:
        """Returns a fact of the machine."""
        return _given(getattr(self._recording, what))

    def device_count(self) -> int:
        """Returns how many GPUs are recorded."""
        return len(self._recording.gpu)

    def device(self, index: int) -> Handle:
        """Returns the GPU at ``index``."""
        gpu = self._recording.gpu[index]
        if gpu.handle_error:
            raise NvmlFailure(gpu.handle_error)
        return gpu

    def device_by_uuid(self, uuid: str) -> Handle:
        """Returns the GPU or slice of that UUID."""
        for gpu in self._recording.gpu:
            for device in (gpu, *gpu.slices):
                if device.uuid == uuid and not gpu.handle_error:
                    return device
        raise NvmlFailure(_NOT_FOUND)

    def mig_slice(self, gpu: Handle, index: int) -> Handle:
        """Returns a MIG slice of ``gpu``."""
        if index >= len(gpu.slices):
            raise NvmlFailure(_NOT_FOUND)
        return gpu.slices[index]

    def query(self, handle: Handle, what: Query) -> Any:
        """Returns one value of a GPU or slice."""
        if self._without.issuperset(SYMBOLS[what]):
            raise NvmlFailure(FUNCTION_NOT_FOUND)
        if what in handle.errors:
            raise NvmlFailure(handle.errors[what])
        return _given(handle.answer(what))

    def close(self) -> None:
        """Nothing to end."""


def _given(value: Any) -> Any:
    if value is None:
        raise NvmlFailure(NOT_SUPPORTED)
    return value
