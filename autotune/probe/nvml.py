"""NVML through pynvml: the only place that imports it.

Reads only. Every call is guarded: pynvml raises errors that cannot be hashed or compared, a mismatch error that is not
its own kind, UnicodeDecodeError on garbage names, and AttributeError for functions it lacks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from autotune.probe.reader import (
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    UNREADABLE,
    Handle,
    MemoryReading,
    NvmlFailure,
    ProcessReading,
    Query,
    SystemQuery,
)

# Drivers whose process list has entries of another size under the same name (gpustat #161, go-nvml #21).
_ODD_PROCESS_LISTS = ((535, 43), (535, 86))


class PynvmlReader:
    """An open session with the driver; see :class:`autotune.probe.reader.NvmlReader`.

    Raises:
        NvmlFailure: no library, no driver, or a driver that does not match its library.
    """

    def __init__(self) -> None:
        import pynvml

        if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
            raise NvmlFailure(UNREADABLE, "another package named pynvml hides nvidia-ml-py; uninstall it")
        self._nvml = pynvml
        try:
            self._guard(pynvml.nvmlInit)
        except NvmlFailure as failure:
            raise _explain_missing(failure) from None
        self._queries = _query_table(pynvml)
        self._odd_process_lists = self._has_odd_process_lists()

    def system(self, what: SystemQuery) -> Any:
        """Returns a fact of the machine."""
        nvml = self._nvml
        if what == "cuda_version":
            return self._first(nvml.nvmlSystemGetCudaDriverVersion_v2, nvml.nvmlSystemGetCudaDriverVersion)
        call = nvml.nvmlSystemGetDriverVersion if what == "driver_version" else nvml.nvmlSystemGetNVMLVersion
        return _text(self._guard(_raw(call)))

    def device_count(self) -> int:
        """Returns how many GPUs the driver lists."""
        return int(self._guard(self._nvml.nvmlDeviceGetCount))

    def device(self, index: int) -> Handle:
        """Returns the GPU at NVML's ``index``."""
        return self._guard(self._nvml.nvmlDeviceGetHandleByIndex, index)

    def device_by_uuid(self, uuid: str) -> Handle:
        """Returns the GPU or slice of that UUID."""
        return self._guard(_raw(self._nvml.nvmlDeviceGetHandleByUUID), uuid.encode())

    def mig_slice(self, gpu: Handle, index: int) -> Handle:
        """Returns a MIG slice of ``gpu``."""
        return self._guard(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index)

    def query(self, handle: Handle, what: Query) -> Any:
        """Returns one value of a GPU or slice."""
        if self._odd_process_lists and what in ("compute_processes", "graphics_processes"):
            raise NvmlFailure(UNREADABLE, "drivers 535.43 to 535.86 give process lists of another layout; update it")
        return self._guard(self._queries[what], handle)

    def close(self) -> None:
        """Ends the session."""
        self._guard(self._nvml.nvmlShutdown)

    def _first(self, *calls: Callable[[], Any]) -> Any:
        for call in calls[:-1]:
            try:
                return self._guard(call)
            except NvmlFailure:
                continue
        return self._guard(calls[-1])

    def _guard(self, call: Callable[..., Any], *args: Any) -> Any:
        return _guarded(self._nvml, call, *args)

    def _has_odd_process_lists(self) -> bool:
        try:
            version = tuple(int(part) for part in self.system("driver_version").split(".")[:2])
        except (NvmlFailure, ValueError):
            return False
        return _ODD_PROCESS_LISTS[0] <= version <= _ODD_PROCESS_LISTS[1]


def _guarded(nvml: Any, call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except NvmlFailure:
        raise
    except nvml.NVMLError as error:
        code = error.value
    except nvml.NVMLLibraryMismatchError:
        code = FUNCTION_NOT_FOUND
    except (AttributeError, TypeError, ValueError, OSError, ctypes.ArgumentError):
        code = UNREADABLE
    raise NvmlFailure(code)  # outside the handler: NVMLError must not become a context that someone prints or hashes


def _explain_missing(failure: NvmlFailure) -> NvmlFailure:
    """Tells a missing library from one that is there and cannot be loaded (an empty stub in a container)."""
    if failure.code != LIBRARY_NOT_FOUND:
        return failure
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        if "No such file" not in str(error):
            return NvmlFailure(UNREADABLE, f"NVIDIA's management library cannot be loaded ({error})")
    return failure


def _raw(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call without pynvml's strict UTF-8 decoding, so that a garbage name is still shown."""
    return getattr(call, "__wrapped__", call)


def _text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


def _query_table(nvml: Any) -> dict[str, Callable[[Handle], Any]]:
    def processes(*calls: Any) -> Callable[[Handle], list[ProcessReading]]:
        def read(handle: Handle) -> list[ProcessReading]:
            listed = _with_fallback(nvml, *calls)(handle)
            return [ProcessReading(int(p.pid), p.usedGpuMemory) for p in listed]

        return read

    def clock(call: Any, kind: int) -> Callable[[Handle], Any]:
        return lambda h: call(h, kind)

    def mig_attributes(handle: Handle) -> tuple[int, int]:
        attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
        return attributes.multiprocessorCount, attributes.memorySizeMB

    return {
        "name": lambda h: _text(_raw(nvml.nvmlDeviceGetName)(h)),
        "uuid": lambda h: _text(_raw(nvml.nvmlDeviceGetUUID)(h)),
        "pci_bus_id": lambda h: _text(nvml.nvmlDeviceGetPciInfo_v3(h).busId),
        "compute_capability": lambda h: tuple(nvml.nvmlDeviceGetCudaComputeCapability(h)),
        "memory_v2": lambda h: _memory_v2(nvml.nvmlDeviceGetMemoryInfo(h, version=nvml.nvmlMemory_v2)),
        "memory_v1": lambda h: _memory_v1(nvml.nvmlDeviceGetMemoryInfo(h)),
        "cores": nvml.nvmlDeviceGetNumGpuCores,
        "mig_mode": lambda h: tuple(nvml.nvmlDeviceGetMigMode(h)),
        "mig_max_slices": nvml.nvmlDeviceGetMaxMigDeviceCount,
        "mig_attributes": mig_attributes,
        "gpu_instance_id": nvml.nvmlDeviceGetGpuInstanceId,
        "compute_instance_id": nvml.nvmlDeviceGetComputeInstanceId,
        "compute_processes": processes(
            nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2
        ),
        "graphics_processes": processes(
            nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, nvml.nvmlDeviceGetGraphicsRunningProcesses_v2
        ),
        "ecc_mode": lambda h: tuple(nvml.nvmlDeviceGetEccMode(h)),
        "power_limit_mw": nvml.nvmlDeviceGetEnforcedPowerLimit,
        "power_draw_mw": nvml.nvmlDeviceGetPowerUsage,
        "clock_sm_mhz": clock(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "clock_sm_max_mhz": clock(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "clock_memory_mhz": clock(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "clock_memory_max_mhz": clock(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
        "throttle_bits": _with_fallback(
            nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        ),
        "thermal_violation_ns": lambda h: _violation(nvml, h, nvml.NVML_PERF_POLICY_THERMAL),
        "power_violation_ns": lambda h: _violation(nvml, h, nvml.NVML_PERF_POLICY_POWER),
        "temperature_c": lambda h: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU),
        "utilization_percent": lambda h: int(nvml.nvmlDeviceGetUtilizationRates(h).gpu),
        "pcie_generation": nvml.nvmlDeviceGetCurrPcieLinkGeneration,
        "pcie_width": nvml.nvmlDeviceGetCurrPcieLinkWidth,
        "pcie_max_generation": nvml.nvmlDeviceGetMaxPcieLinkGeneration,
        "pcie_max_width": nvml.nvmlDeviceGetMaxPcieLinkWidth,
        "compute_mode": nvml.nvmlDeviceGetComputeMode,
    }


def _with_fallback(nvml: Any, newer: Callable[..., Any], older: Callable[..., Any]) -> Callable[[Handle], Any]:
    """The newer call, or the older where this driver lacks the newer."""

    def read(handle: Handle) -> Any:
        try:
            return _guarded(nvml, newer, handle)
        except NvmlFailure as failure:
            if failure.code != FUNCTION_NOT_FOUND:
                raise
        return _guarded(nvml, older, handle)

    return read


def _memory_v2(memory: Any) -> MemoryReading:
    return MemoryReading(int(memory.total), int(memory.used), int(memory.free), int(memory.reserved))


def _memory_v1(memory: Any) -> MemoryReading:
    return MemoryReading(int(memory.total), int(memory.used), int(memory.free))


def _violation(nvml: Any, handle: Handle, policy: int) -> int:
    return int(nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime)
